//! What others know of the targets of a mount.

use fulmar_rpc::import::TargetKind;

use super::filesystem::FileSystem;

impl FileSystem {
    /// Handles a report that an MDT or an OST has restarted, for the n-th time: it is connected again at once. A mount
    /// that the management service tells the same needs none, but that may have restarted too.
    pub fn target_restarted(&self, kind: TargetKind, index: u32, instance: u32) {
        self.begin(move |cx| async move { cx.target_restarted(kind, index, instance) });
    }
}
