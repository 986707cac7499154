//! How much a session may hold, and how long its RPCs may take.

use std::time::Duration;

/// Nodes of a session. Each costs a hundred bytes here, and an RPC for each command.
pub(super) const NODES_MAX: usize = 16_384;
/// Groups of a session.
pub(super) const GROUPS_MAX: usize = 1024;
/// Batches of a session.
pub(super) const BATCHES_MAX: usize = 1024;
/// Tests of a batch.
pub(super) const TESTS_MAX: usize = 1024;
/// RPCs of one command that are in flight at once; further nodes wait for their turn.
pub(super) const WINDOW: usize = 1024;

/// How long a command waits for its nodes.
#[doc(alias = "LST_TRANS_TIMEOUT")]
pub(super) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The least seconds that a user may choose for it.
#[doc(alias = "LST_TRANS_MIN_TIMEOUT")]
const TRANSACTION_TIMEOUT_MIN: u32 = 3;
/// How often silent nodes are pinged, and how exact the session's timeout is.
#[doc(alias = "LST_PING_INTERVAL")]
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(8);
/// The session's timeout in seconds, if the user has not chosen one.
#[doc(alias = "LST_CONSOLE_TIMEOUT")]
pub(super) const SESSION_TIMEOUT: u32 = 300;

/// The largest concurrency of a test.
#[doc(alias = "LST_MAX_CONCUR")]
pub(super) const CONCURRENCY_MAX: u32 = 1024;
/// The page of nodes that know no lengths in bytes, and within which a transfer may begin.
pub(super) const PAGE: u32 = 4096;

/// Returns how long a command waits whose user has chosen so many seconds.
pub(super) fn chosen_timeout(seconds: u32) -> Duration {
    let most = TRANSACTION_TIMEOUT.as_secs() as u32;
    Duration::from_secs(seconds.clamp(TRANSACTION_TIMEOUT_MIN, most).into())
}
