//! The targets of the node for its administrator, who may start and stop them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, TargetStart, TargetStop};
use fulmar_control::show;
use fulmar_lnet_wire::Nid;
use fulmar_net::Node;
use fulmar_server::{ChangeError, Device, ServeError, ServeOptions, Serving, UnservedDirectory};
use sd_notify::NotifyState;

use crate::admin::{Daemon, Result};

/// The targets that the node serves, from the first one on.
pub(crate) struct HostedTargets {
    node: Node,
    port: u16,
    state: Mutex<State>,
}

enum State {
    /// No target was ever started.
    None,
    Serving(Serving),
    /// The node stops.
    Ended,
}

impl HostedTargets {
    pub(crate) fn new(node: &Node, port: u16) -> Self {
        Self { node: node.clone(), port, state: Mutex::new(State::None) }
    }

    /// Serves targets from directories at the NIDs of the node, if there are any.
    pub(crate) fn start(
        &self,
        directories: &[PathBuf],
        nids: Vec<Nid>,
    ) -> std::result::Result<(), ServeError> {
        if !directories.is_empty() {
            let (directories, port) = (directories.to_vec(), self.port);
            let options = ServeOptions { directories, nids, port };
            *self.state() = State::Serving(Serving::start(&self.node, &options)?);
        }
        Ok(())
    }

    /// Stops all targets; none is started after that.
    pub(crate) fn stop(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Ended);
        if let State::Serving(serving) = state {
            serving.stop();
        }
    }

    /// Returns the targets, if there has been one.
    pub(crate) fn serving(&self) -> Option<Serving> {
        match &*self.state() {
            State::Serving(serving) => Some(serving.clone()),
            State::None | State::Ended => None,
        }
    }

    /// Returns the targets, of which there may be none yet, at the NIDs that the node has now.
    fn prepared(&self, nids: Vec<Nid>) -> std::result::Result<Serving, ChangeError> {
        let mut state = self.state();
        match &*state {
            State::Serving(serving) => {
                serving.set_nids(nids);
                Ok(serving.clone())
            }
            State::Ended => Err(ChangeError::Ended),
            State::None => {
                let serving = Serving::new(&self.node, nids, self.port)?;
                *state = State::Serving(serving.clone());
                Ok(serving)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Daemon {
    /// Returns the targets, and the directories from which nothing is served.
    pub(super) fn all_targets(&self) -> Vec<show::Target> {
        let Some(devices) = self.hosting.serving().map(|serving| serving.devices()) else {
            return vec![];
        };
        let served = devices.all().into_iter().map(|device| {
            let Device { kind, name, uuid, directory, clients, in_hand, queued, ended } = device;
            show::Target {
                kind: kind.to_owned(),
                name,
                uuid,
                directory: directory.display().to_string(),
                clients,
                in_hand,
                queued,
                has_stopped: ended.is_some(),
                error: ended,
            }
        });
        let unserved =
            devices.unserved().into_iter().map(|UnservedDirectory { directory, why }| {
                let [kind, name, uuid] = ["-"; 3].map(str::to_owned);
                let (directory, error) = (directory.display().to_string(), Some(why));
                let (clients, in_hand, queued, has_stopped) = (0, 0, 0, false);
                show::Target {
                    kind,
                    name,
                    uuid,
                    directory,
                    clients,
                    in_hand,
                    queued,
                    has_stopped,
                    error,
                }
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
        let value = self.hosting.serving()?.devices().health();
        Some(show::Parameter { name: vec!["health_check".to_owned()], value })
    }

    pub(super) fn start_targets(&self, request: &TargetStart) -> Result<Vec<String>> {
        let directory = Path::new(&request.directory);
        let nids = self.networks.all().iter().map(|spec| spec.nid).collect();
        let serving = self.hosting.prepared(nids).map_err(|error| refused("start", &error))?;
        let started = serving.start_targets(directory);
        self.report_targets();
        let started = started.map_err(|error| refused("start", &error))?;
        tracing::info!("the administrator has started {}", started.join(", "));
        Ok(started)
    }

    pub(super) fn stop_targets(&self, request: &TargetStop) -> Result<Vec<String>> {
        let TargetStop { target, directory } = request;
        let unknown = || {
            let (what, known) = (target.clone(), vec![]);
            refused("stop", &ChangeError::Unknown { what, known })
        };
        let serving = self.hosting.serving().ok_or_else(unknown)?;
        let stopped = serving.stop_targets(target, Path::new(directory));
        self.report_targets();
        let stopped = stopped.map_err(|error| refused("stop", &error))?;
        tracing::info!("the administrator has stopped {}", stopped.join(", "));
        Ok(stopped)
    }

    /// Tells the service manager what is served.
    fn report_targets(&self) {
        let all = || format!("{} targets are served", self.all_targets().len());
        let status = self.unserved().unwrap_or_else(all);
        crate::notify(NotifyState::Status(&status));
    }
}

fn refused(what: &str, error: &ChangeError) -> AdminError {
    let refused = AdminError::new(error.errno(), format!("cannot {what}: {error}"));
    let hint = match (error, error.errno()) {
        (ChangeError::Served { .. }, _) => {
            "to start it again, stop it first: \"fulmar target stop\""
        }
        (ChangeError::Unknown { .. }, _) => {
            "\"fulmar target list\" shows the targets of the node, with their directories"
        }
        (ChangeError::Refused { .. }, Errno::EINVAL) => {
            "\"fulmar mkfs\" makes the storage of a target in a directory"
        }
        _ => return refused,
    };
    refused.with_hint(hint)
}
