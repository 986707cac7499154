//! The parameters of targets and of the node: as the files of a kernel node, and as an administrator has set
//! them for good.
//!
//! What can be read and set of a target is a table of its crate (`Mdt::PARAMETERS`,
//! `Ost::PARAMETERS`): names, and functions that read and write; `timing` has the timeouts that all
//! targets of a node share. `Parameters` selects by patterns, for commands and for what an
//! administrator has set for good: the thread of `join` reads the log of its target and that of all
//! nodes, and applies what has changed. It keeps what it has read (`settings`), so that a restarted
//! target has its parameters before its first client. Counters (`target::stats`) are the same for
//! both kinds.

mod evicting;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::Setting;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Handle;
use fulmar_mdt::Mdt;
use fulmar_net::{Running, wall_clock};
use fulmar_ost::Ost;
use fulmar_rpc::export::TargetId;
use fulmar_target::parameters::{Moment, Parameter};
use fulmar_text::pattern::selects;
use thiserror::Error;
use tracing::{info, warn};

use crate::changelogs::Changelogs;
use crate::devices::Device;
use crate::roster::{Roster, RosterEntry, Service};
use crate::run::TargetHost;
use crate::{debug_log, timing};

/// The parameters of the targets of a node, which has none of them after its end.
pub struct Parameters {
    running: Running<TargetHost>,
    /// When the targets were started, since 1970.
    started: Duration,
    roster: Arc<Roster>,
    changelogs: Changelogs,
}

/// Why a parameter is not set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unset {
    /// There is none of this name.
    #[error("there is no parameter {0}")]
    Unknown(String),
    /// It is only read.
    #[error("{0} cannot be set")]
    ReadOnly(String),
    /// The value is wrong.
    #[error("{name}: {why}")]
    Invalid {
        /// The parameter.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// The name of a parameter, and its text.
pub type NamedValue = (Vec<String>, String);

/// Whether a parameter with this name is wanted.
type Filter<'a> = &'a dyn Fn(&[String]) -> bool;

impl Parameters {
    pub(crate) fn new(running: Running<TargetHost>, roster: Arc<Roster>) -> Self {
        let changelogs = Changelogs::new(roster.clone());
        Self { running, started: now(), roster, changelogs }
    }

    /// Returns all parameters: the parts of the name of each, such as `obdfilter`, `lv-OST0000`, `stats`,
    /// and its text. Those of the node come first, then those of each target, by their names.
    pub fn all(&self) -> Vec<NamedValue> {
        self.selected(|_| true)
    }

    /// The same of those whose names are wanted. The others are not read: there is a text for each client.
    pub fn selected(&self, is_wanted: impl Fn(&[String]) -> bool) -> Vec<NamedValue> {
        let is_wanted: Filter<'_> = &is_wanted;
        let served = self.roster.served();
        let have_ended = have_ended(&served);
        let mut all = if have_ended { vec![] } else { timing::all(&self.running) };
        all.extend(self.changelogs.parameters(now().as_secs() as i64));
        all.retain(|(name, _)| is_wanted(name));
        for (target, listed) in &served {
            let (name, exports) = (&listed.device.name, self.exports(*target));
            let count = exports.values().map(Vec::len).sum();
            let moment = Moment { now: now(), started: self.started, exports: count };
            if !have_ended {
                all.extend(self.locks_of(*target, listed, is_wanted));
            }
            match &listed.service {
                Service::Mgs(_) => {}
                Service::Mdt(mdt) => {
                    let Some(mdt) = mdt.upgrade() else { continue };
                    let of_client = |exports: &[Handle]| mdt.client_file(exports, moment.now);
                    all.extend(of_clients(("mdt", name), &exports, of_client, is_wanted));
                    all.extend(read_all(Mdt::PARAMETERS, &*mdt, (name, &moment), is_wanted));
                }
                Service::Ost(ost) => {
                    let Some(ost) = ost.upgrade() else { continue };
                    let of_client = |exports: &[Handle]| ost.client_file(exports, moment.now);
                    all.extend(of_clients(("obdfilter", name), &exports, of_client, is_wanted));
                    all.extend(read_all(Ost::PARAMETERS, &*ost, (name, &moment), is_wanted));
                }
            }
        }
        all
    }

    /// Returns the names of all parameters. Nothing of the locks, the clients and the statistics of targets is read for
    /// that.
    pub fn names(&self) -> Vec<Vec<String>> {
        let names = RefCell::new(Vec::new());
        self.selected(|name| {
            names.borrow_mut().push(name.to_vec());
            false
        });
        names.into_inner()
    }

    /// Returns whether a parameter can be set.
    pub fn is_writable(&self, name: &[String]) -> bool {
        if let [name] = name {
            return timing::NAMES.contains(&name.as_str());
        }
        let of_changelog = name.last().is_some_and(|last| last == "changelog_mask");
        let mut served = self.roster.served().into_iter();
        of_changelog || served.any(|(_, one)| one.service.sets(&one.device.name, name))
    }

    /// Sets the parameters whose names a pattern such as `mdt.*.root_squash` selects, until the targets end.
    /// Returns their names. `mdt.*.evict_client` evicts the clients with a NID or a UUID.
    ///
    /// # Errors
    /// Why one is not set. Those before it are.
    pub fn set(&self, pattern: &str, value: &str) -> Result<Vec<String>, Unset> {
        let mut set = timing::set(&self.running, pattern, value)?;
        set.extend(self.evict_clients(pattern, value)?);
        for (target, _) in self.roster.served() {
            set.extend(self.set_of(target, pattern, value)?);
        }
        if set.is_empty() { Err(Unset::Unknown(pattern.to_owned())) } else { Ok(set) }
    }

    /// The same for one target.
    fn set_of(&self, target: TargetId, pattern: &str, value: &str) -> Result<Vec<String>, Unset> {
        let Some(listed) = self.roster.get(target) else { return Ok(vec![]) };
        let name = &listed.device.name;
        match &listed.service {
            Service::Mgs(_) => Ok(vec![]),
            Service::Mdt(mdt) => {
                let Some(mdt) = mdt.upgrade() else { return Ok(vec![]) };
                let mut set = set_all((Mdt::PARAMETERS, &mdt, name), pattern, value)?;
                set.extend(self.changelogs.set(name, pattern, value)?);
                Ok(set)
            }
            Service::Ost(ost) => ost
                .upgrade()
                .map_or(Ok(vec![]), |ost| set_all((Ost::PARAMETERS, &ost, name), pattern, value)),
        }
    }

    /// Applies what an administrator has set for good for a target. What is unknown or wrong is reported.
    pub(crate) fn apply(&self, target: TargetId, settings: &[Setting]) {
        let Some(listed) = self.roster.get(target) else { return };
        let (name, member) = (&listed.device.name, &listed.service);
        for Setting { name: pattern, value, is_for_all } in settings {
            // Whether an OST is used is in the configuration of clients too, which an MDT follows.
            if pattern.starts_with("osc.") && pattern.ends_with(".active") {
                continue;
            }
            debug_log::configured(name, format_args!("its log has {pattern}={value}"));
            let of_node = timing::set(&self.running, pattern, value);
            let set = of_node.and_then(|set| {
                if set.is_empty() { self.set_of(target, pattern, value) } else { Ok(set) }
            });
            match set {
                Ok(set) if !set.is_empty() => info!("{name}: {pattern} is {value}"),
                // That for all nodes is for those that have it.
                Ok(_) if *is_for_all && !member.has_area(pattern) => {}
                Ok(_) => {
                    let known = member.known();
                    warn!("{name} has no parameter {pattern} (set to {value}). It has {known}");
                }
                Err(error) => warn!("{name} does not take {pattern}={value}: {error}"),
            }
        }
    }

    /// Asks the clients of a target for all their locks back: what they have cached was of other nodemaps.
    pub(crate) fn forget_cached(&self, target: TargetId) {
        // A node that has failed has no clients.
        let _ = self.running.call(|targets, now| targets.call_back_all(now, target));
    }

    /// Returns how many locks clients and operations of a target have or wait for, and how many of these they have.
    fn locks_of(
        &self,
        target: TargetId,
        listed: &RosterEntry,
        is_wanted: Filter<'_>,
    ) -> Vec<NamedValue> {
        let Device { name, uuid, .. } = &listed.device;
        let space = match &listed.service {
            Service::Mgs(_) => name.clone(),
            Service::Mdt(_) => format!("mdt-{uuid}"),
            Service::Ost(_) => format!("filter-{uuid}"),
        };
        let named = |file: &[&str]| {
            let parts = ["ldlm", "namespaces", &space].into_iter().chain(file.iter().copied());
            parts.map(str::to_owned).collect::<Vec<_>>()
        };
        let all = named(&["lock_count"]);
        let granted = named(&["pool", "granted"]);
        let (with_all, with_granted) = (is_wanted(&all), is_wanted(&granted));
        if !with_all && !with_granted {
            return Vec::new();
        }
        // A node that has failed has no locks.
        let Ok(counts) = self.running.call(move |targets, _| targets.locks_of(target)) else {
            return Vec::new();
        };
        let all = with_all.then(|| (all, counts.0 + counts.1));
        let granted = with_granted.then_some((granted, counts.0));
        all.into_iter().chain(granted).map(|(name, count)| (name, format!("{count}\n"))).collect()
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

/// Returns whether a server has no targets any more.
fn have_ended(served: &[(TargetId, RosterEntry)]) -> bool {
    let services = served.iter().map(|(_, listed)| &listed.service);
    let mut targets = services.filter(|one| !matches!(one, Service::Mgs(_))).peekable();
    targets.peek().is_some() && targets.all(Service::has_ended)
}

impl Service {
    /// Returns whether it is not there any more.
    fn has_ended(&self) -> bool {
        match self {
            Self::Mgs(_) => false,
            Self::Mdt(mdt) => mdt.strong_count() == 0,
            Self::Ost(ost) => ost.strong_count() == 0,
        }
    }

    fn names(&self) -> Vec<&'static str> {
        match self {
            Self::Mgs(_) => vec![],
            Self::Mdt(_) => settable(Mdt::PARAMETERS),
            Self::Ost(_) => settable(Ost::PARAMETERS),
        }
    }

    /// Returns whether a parameter of a device can be set.
    fn sets(&self, device: &str, name: &[String]) -> bool {
        match self {
            Self::Mgs(_) => false,
            Self::Mdt(_) => is_settable(Mdt::PARAMETERS, device, name),
            Self::Ost(_) => is_settable(Ost::PARAMETERS, device, name),
        }
    }

    /// Returns whether parameters of the area of a pattern are of such a target.
    fn has_area(&self, pattern: &str) -> bool {
        let area = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        self.names().iter().any(|name| area(name) == area(pattern))
    }

    /// Returns the names of what is set.
    fn known(&self) -> String {
        let of_node = timing::NAMES.iter().map(|name| format!("sys.{name}"));
        let own = self.names().into_iter().map(str::to_owned);
        own.chain(of_node).collect::<Vec<_>>().join(", ")
    }
}

fn settable<T>(table: &'static [Parameter<T>]) -> Vec<&'static str> {
    table.iter().filter(|one| one.write.is_some()).map(|one| one.name).collect()
}

fn is_settable<T>(table: &'static [Parameter<T>], device: &str, name: &[String]) -> bool {
    table.iter().any(|one| one.write.is_some() && one.parts(device) == name)
}

fn read_all<T>(
    table: &'static [Parameter<T>],
    target: &T,
    (device, moment): (&str, &Moment),
    is_wanted: Filter<'_>,
) -> Vec<NamedValue> {
    let wanted = table.iter().map(|one| (one, one.parts(device)));
    let wanted = wanted.filter(|(_, name)| is_wanted(name));
    wanted.filter_map(|(one, name)| Some((name, (one.read)(target, moment)?))).collect()
}

fn set_all<T>(
    (table, target, name): (&'static [Parameter<T>], &T, &str),
    pattern: &str,
    value: &str,
) -> Result<Vec<String>, Unset> {
    let mut set = vec![];
    for one in table.iter().filter(|one| selects(pattern, &one.parts(name))) {
        let full = one.parts(name).join(".");
        let write = one.write.ok_or_else(|| Unset::ReadOnly(full.clone()))?;
        write(target, value).map_err(|why| Unset::Invalid { name: full.clone(), why })?;
        set.push(full);
    }
    Ok(set)
}

/// Returns the statistics of clients by their nodes.
fn of_clients(
    (area, name): (&str, &str),
    exports: &BTreeMap<Nid, Vec<Handle>>,
    file: impl Fn(&[Handle]) -> String,
    is_wanted: Filter<'_>,
) -> Vec<NamedValue> {
    let named = |nid: &Nid| -> Vec<String> {
        [area, name, "exports", &nid.to_string(), "stats"].map(str::to_owned).to_vec()
    };
    let all = exports.iter().map(|(nid, exports)| (named(nid), exports));
    let wanted = all.filter(|(name, _)| is_wanted(name));
    wanted.map(|(name, exports)| (name, file(exports))).collect()
}

fn now() -> Duration {
    Duration::from_nanos(wall_clock())
}
