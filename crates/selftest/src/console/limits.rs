//! Limits of a session, and timeouts of its RPCs.

use std::time::Duration;

/// Nodes of a session. Each needs a hundred bytes here, and an RPC in flight for each command.
pub(super) const NODES_MAX: usize = 16_384;
/// Groups of a session.
pub(super) const GROUPS_MAX: usize = 1024;
/// Batches of a session.
pub(super) const BATCHES_MAX: usize = 1024;
/// Tests of a batch.
pub(super) const TESTS_MAX: usize = 1024;

/// Timeout of a command.
#[doc(alias = "LST_TRANS_TIMEOUT")]
pub(super) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The least timeout in seconds that a user may choose.
#[doc(alias = "LST_TRANS_MIN_TIMEOUT")]
const TRANSACTION_TIMEOUT_MIN: u32 = 3;
/// How often silent nodes are pinged; also the precision of the session timeout.
#[doc(alias = "LST_PING_INTERVAL")]
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(8);
/// The default session timeout in seconds.
#[doc(alias = "LST_CONSOLE_TIMEOUT")]
pub(super) const SESSION_TIMEOUT: u32 = 300;

/// The largest concurrency of a test.
#[doc(alias = "LST_MAX_CONCUR")]
pub(super) const CONCURRENCY_MAX: u32 = 1024;
/// Page size for nodes without lengths in bytes; a transfer may start anywhere in the first page.
pub(super) const PAGE: u32 = 4096;

/// Returns the timeout of a command for the number of seconds that the user chose.
pub(super) fn chosen_timeout(seconds: u32) -> Duration {
    let most = TRANSACTION_TIMEOUT.as_secs() as u32;
    Duration::from_secs(seconds.clamp(TRANSACTION_TIMEOUT_MIN, most).into())
}
