//! The targets of a node as its administrator sees them, also those that are not served.

use std::fmt;
use std::path::PathBuf;

use fulmar_net::Running;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::TargetKind;

use crate::opened::Opened;
use crate::run::TargetHost;
use crate::targets::Targets;

/// The targets of a node.
pub struct Devices {
    running: Running<TargetHost>,
    served: Vec<Device>,
    unserved: Vec<Unserved>,
}

/// A target that is served, or was until its storage failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The type of the device on a kernel node: `mgs`, `mdt` or `obdfilter`.
    pub kind: &'static str,
    /// Its name, such as `lv-OST0000`.
    pub name: String,
    /// Its UUID, such as `lv-OST0000_UUID`.
    pub uuid: String,
    /// Where its storage is.
    pub directory: PathBuf,
    /// How many clients are connected, also other targets.
    pub clients: usize,
    /// Why it is not served any more.
    pub ended: Option<String>,
}

/// A directory from which nothing is served, since the node was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Which.
    pub directory: PathBuf,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, why } = self;
        let place = directory.display().to_string();
        match why.contains(&place) {
            true => f.write_str(why),
            false => write!(f, "{place}: {why}"),
        }
    }
}

impl Devices {
    pub(crate) fn new<'a>(
        running: Running<TargetHost>,
        served: impl IntoIterator<Item = (TargetId, &'a Opened)>,
        unserved: Vec<Unserved>,
    ) -> Self {
        let served = served.into_iter().map(|(_, one)| Device {
            kind: match one.kind() {
                TargetKind::Mdt => "mdt",
                TargetKind::Ost => "obdfilter",
                _ => "mgs",
            },
            name: one.label.to_string(),
            uuid: one.label.uuid(),
            directory: one.directory.clone(),
            clients: 0,
            ended: None,
        });
        Self { running, served: served.collect(), unserved }
    }

    /// Returns how many targets were opened.
    pub(crate) fn served(&self) -> usize {
        self.served.len()
    }

    /// Returns the targets that were opened, as they are now.
    pub fn all(&self) -> Vec<Device> {
        let now = |targets: &mut Targets, place: usize, device: &Device| {
            let target = TargetId(place as u32);
            let exports = targets.server().exports().iter();
            let own = exports.filter(|(_, one)| one.target == target && one.is_connected());
            let clients = own.count();
            let ended = targets.why_ended(target);
            Device { clients, ended, ..device.clone() }
        };
        let all = self.running.call(|targets, _| {
            let places = self.served.iter().enumerate();
            places.map(|(place, device)| now(targets, place, device)).collect()
        });
        // The node has failed.
        all.unwrap_or_default()
    }

    /// Returns the directories from which nothing is served.
    pub fn unserved(&self) -> &[Unserved] {
        &self.unserved
    }

    /// Returns the parameter `health_check` of a kernel node.
    pub fn health(&self) -> String {
        let mut text = String::new();
        for device in self.all().iter().filter(|device| device.ended.is_some()) {
            text += &format!("device {} reported unhealthy\n", device.name);
        }
        for one in &self.unserved {
            text += &format!("device {} reported unhealthy\n", one.directory.display());
        }
        text += if text.is_empty() { "healthy\n" } else { "NOT HEALTHY\n" };
        text
    }
}
