//! The targets of a node as its administrator sees them, also those that are not served.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use fulmar_net::Running;
use fulmar_rpc::export::TargetId;

use crate::roster::{Roster, RosterEntry};
use crate::run::TargetHost;

/// The targets of a node.
pub struct Devices {
    running: Running<TargetHost>,
    roster: Arc<Roster>,
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
    /// How many of their requests are executed now.
    pub in_hand: usize,
    /// How many of their requests wait for that.
    pub queued: usize,
    /// Why it is not served any more.
    pub ended: Option<String>,
}

/// A directory from which nothing is served, although an administrator wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedDirectory {
    /// Which.
    pub directory: PathBuf,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for UnservedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, why } = self;
        let place = directory.display().to_string();
        if why.contains(&place) { f.write_str(why) } else { write!(f, "{place}: {why}") }
    }
}

impl Device {
    /// Returns whether this is its name or its UUID.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.uuid == name
    }
}

impl Devices {
    pub(crate) fn new(running: Running<TargetHost>, roster: Arc<Roster>) -> Self {
        Self { running, roster }
    }

    /// Returns the targets that were opened, as they are now, in the order of their starts.
    pub fn all(&self) -> Vec<Device> {
        let served = self.roster.served();
        let all = self.running.call(|targets, _| {
            let counts = [targets.clients(), targets.in_hand(), targets.queued()];
            let now = |(target, listed): (TargetId, RosterEntry)| {
                let [clients, in_hand, queued] =
                    counts.each_ref().map(|of| of.get(&target).copied().unwrap_or(0));
                let ended = targets.why_ended(target);
                Device { clients, in_hand, queued, ended, ..listed.device }
            };
            served.into_iter().map(now).collect()
        });
        // The node has failed.
        all.unwrap_or_default()
    }

    /// Returns the directories from which nothing is served.
    pub fn unserved(&self) -> Vec<UnservedDirectory> {
        self.roster.unserved()
    }

    /// Returns the parameter `health_check` of a kernel node.
    pub fn health(&self) -> String {
        let mut text = String::new();
        for device in self.all().iter().filter(|device| device.ended.is_some()) {
            text += &format!("device {} reported unhealthy\n", device.name);
        }
        for one in self.unserved() {
            text += &format!("device {} reported unhealthy\n", one.directory.display());
        }
        text += if text.is_empty() { "healthy\n" } else { "NOT HEALTHY\n" };
        text
    }
}
