//! The statistics and parameters of targets, as the files of a kernel node.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Handle;
use fulmar_net::{Running, wall_clock};
use fulmar_ost::Ost;
use fulmar_rpc::export::TargetId;

use crate::changelogs::Changelogs;
use crate::run::TargetHost;

/// The statistics of the targets of a node, which are empty after its end.
pub struct Parameters {
    running: Running<TargetHost>,
    /// When the targets were started, since 1970.
    started: Duration,
    osts: Vec<(TargetId, String, Weak<Ost>)>,
    changelogs: Changelogs,
}

impl Parameters {
    /// `osts`: each with its name.
    pub(crate) fn new(
        running: Running<TargetHost>,
        osts: impl IntoIterator<Item = (TargetId, String, Arc<Ost>)>,
        changelogs: Changelogs,
    ) -> Self {
        let osts = osts.into_iter().map(|(id, name, ost)| (id, name, Arc::downgrade(&ost)));
        Self { running, started: now(), osts: osts.collect(), changelogs }
    }

    /// Returns all parameters: the parts of the name of each, such as `obdfilter`, `lv-OST0000`, `stats`,
    /// and its text. The order is that of the targets, and of names.
    pub fn all(&self) -> Vec<(Vec<String>, String)> {
        let mut all = self.changelogs.parameters(now().as_secs() as i64);
        for (target, name, ost) in &self.osts {
            let Some(ost) = ost.upgrade() else { continue };
            let exports = self.exports(*target);
            let count = exports.values().map(Vec::len).sum();
            // A store that has ended has no statistics.
            let files = ost.files(now(), self.started, count).unwrap_or_default();
            let named = |parts: &[&str]| -> Vec<String> {
                ["obdfilter", name].iter().chain(parts).map(|part| (*part).to_owned()).collect()
            };
            for (nid, exports) in &exports {
                let text = ost.client_file(exports, now());
                all.push((named(&["exports", &nid.to_string(), "stats"]), text));
            }
            all.extend(files.into_iter().map(|(file, text)| (named(&[file]), text)));
        }
        all
    }

    /// Sets a parameter by its name, such as `mdd`, `lv-MDT0000`, `changelog_mask`. Most are set until the next
    /// start.
    ///
    /// # Errors
    /// EACCES if it cannot be set, EINVAL if the value is not valid, ENODEV if the target has ended.
    pub fn set(&self, name: &[String], value: &str) -> Result<(), Errno> {
        self.changelogs.set(name, value)
    }

    /// Returns the exports of a target by the nodes of its clients.
    fn exports(&self, target: TargetId) -> BTreeMap<Nid, Vec<Handle>> {
        let found = self.running.call(|targets, _| {
            let mut of_node = BTreeMap::<Nid, Vec<Handle>>::new();
            for (handle, export) in targets.server().exports().iter() {
                if export.target == target && export.is_connected() {
                    of_node.entry(export.peer.nid).or_default().push(handle);
                }
            }
            of_node
        });
        // The node has failed.
        found.unwrap_or_default()
    }
}

fn now() -> Duration {
    Duration::from_nanos(wall_clock())
}
