//! Waits, and their ends.

use std::time::Duration;

use super::filesystem::FileSystem;
use crate::machine::context::Context;
use crate::machine::requester::Requester;

impl FileSystem {
    /// A requester does not wait any more for its operations: those that wait for a target that is away end with EINTR.
    /// What was sent is waited for, since the target may have executed it; nothing more is begun.
    pub fn interrupt(&self, requester: &Requester) {
        let requester = requester.clone();
        // The machine does not notice what happens outside.
        self.begin(|_| async move { requester.interrupt() });
    }

    /// Waits.
    pub async fn sleep(&self, time: Duration) {
        let slept = move |cx: Context| async move {
            cx.sleep(time).await;
            Ok(())
        };
        // Without the node there is nothing to wait for.
        let _ = self.run(slept).await;
    }
}
