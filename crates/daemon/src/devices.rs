//! The targets of the node for its administrator.

use fulmar_control::show;
use fulmar_server::{Device, Unserved};

use crate::admin::Daemon;

impl Daemon {
    /// Returns the targets, and the directories from which nothing is served.
    pub(super) fn all_targets(&self) -> Vec<show::Target> {
        let Some(devices) = &self.devices else { return vec![] };
        let served = devices.all().into_iter().map(|device| {
            let Device { kind, name, uuid, directory, clients, ended } = device;
            show::Target {
                kind: kind.to_owned(),
                name,
                uuid,
                directory: directory.display().to_string(),
                clients,
                has_stopped: ended.is_some(),
                error: ended,
            }
        });
        let unserved = devices.unserved().iter().map(|Unserved { directory, why }| {
            let [kind, name, uuid] = ["-"; 3].map(str::to_owned);
            let (directory, error) = (directory.display().to_string(), Some(why.clone()));
            show::Target { kind, name, uuid, directory, clients: 0, has_stopped: false, error }
        });
        served.chain(unserved).collect()
    }

    /// Returns how many targets are not served, for the service manager, if there are any.
    pub(super) fn unserved(&self) -> Option<String> {
        let all = self.all_targets();
        let missing = all.iter().filter(|target| target.error.is_some());
        let missing: Vec<&str> = missing.map(|target| target.directory.as_str()).collect();
        let served = all.len() - missing.len();
        let text =
            format!("{served} of {} targets are served: not {}", all.len(), missing.join(", "));
        (!missing.is_empty()).then_some(text)
    }

    /// Returns the parameter `health_check` of a node with targets.
    pub(super) fn health_check(&self) -> Option<show::Parameter> {
        let value = self.devices.as_ref()?.health();
        Some(show::Parameter { name: vec!["health_check".to_owned()], value })
    }
}
