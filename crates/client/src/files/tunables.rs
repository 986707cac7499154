//! The parameters of a mount as attributes of its files, with the names and values of a kernel's client. They are how
//! `lctl get_param` and `set_param` learn and change them.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_data::stripes::Target;
use fulmar_data::{Settings, TargetView};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Import, TargetKind};
use fulmar_text::integer;

use super::caller::Caller;
use super::figures::{self, Connection};
use crate::Process;
use crate::machine::MountId;
use crate::machine::context::Context;
use crate::machine::core::Core;

/// The most bytes of names in one answer.
const NAMES_MAX: usize = 60 << 10;
/// A page of memory, as a kernel's client counts them.
pub(super) const PAGE: u64 = 4096;
/// The most of a size in MiB: what is more does not fit into a number of bytes.
const MIB_MAX: u64 = u64::MAX >> 20;
/// The most RPCs in flight that can be set.
const RPCS_MAX: u64 = 256;

const OF_MOUNT: &[&str] = &[
    "max_cached_mb",
    "max_read_ahead_mb",
    "max_read_ahead_per_file_mb",
    "read_ahead_stats",
    "stats",
];
const OF_MGS: &[&str] = &["import", "stats"];
const OF_MDT: &[&str] = &["import", "max_rpcs_in_flight", "stats"];
const OF_OST: &[&str] = &[
    "checksums",
    "cur_dirty_bytes",
    "cur_grant_bytes",
    "import",
    "max_dirty_mb",
    "max_rpcs_in_flight",
    "rpc_stats",
    "stats",
];
const OF_LOCKS: &[&str] = &["lock_count", "lock_unused_count"];

/// What has parameters: the mount, or the connection to a target.
struct Device {
    /// The first parts of the names, such as `osc/lv-OST0000-osc-ff11000012345678`.
    path: String,
    files: &'static [&'static str],
    of: Of,
}

enum Of {
    Mount,
    Target { target: Option<Target>, import: ImportId, device: String },
    Locks(ImportId),
}

impl Context {
    /// Returns names of parameters with slashes, each on a line, from the one with this number on; as many as fit.
    pub(crate) fn tunables(&self, from: usize) -> Result<Vec<u8>, Errno> {
        let mut text = String::new();
        let devices = devices(&self.core(), self.mount)?;
        let of_devices =
            devices.iter().flat_map(|one| one.files.iter().map(|file| (&one.path[..], file)));
        let process = self.process()?;
        let of_process = process.iter().flat_map(|one| one.parameters()).map(|name| ("", name));
        for (path, file) in of_devices.chain(of_process).skip(from) {
            if text.len() + path.len() + file.len() + 2 > NAMES_MAX {
                break;
            }
            let slash = if path.is_empty() { "" } else { "/" };
            text.extend([path, slash, file, "\n"]);
        }
        Ok(text.into_bytes())
    }

    fn process(&self) -> Result<Option<Arc<dyn Process>>, Errno> {
        let core = self.core();
        Ok(core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?.process.clone())
    }

    /// Returns the process of the mount if this is one of its parameters.
    fn process_with(&self, name: &str) -> Result<Option<Arc<dyn Process>>, Errno> {
        Ok(self.process()?.filter(|process| process.parameters().contains(&name)))
    }

    /// Removes and returns lines of the debug log.
    ///
    /// # Errors
    /// EPERM for others than the superuser, ENODATA if there is no log.
    pub(crate) fn take_debug_log(&self, caller: &Caller) -> Result<Vec<u8>, Errno> {
        if caller.uid != 0 {
            return Err(Errno::EPERM);
        }
        let process = self.process()?.ok_or(Errno::ENODATA)?;
        Ok(process.take_log(NAMES_MAX).into_bytes())
    }

    /// Returns the value of a parameter.
    ///
    /// # Errors
    /// ENODATA if there is none of this name now.
    pub(crate) fn tunable(&self, name: &str) -> Result<Vec<u8>, Errno> {
        if let Some(process) = self.process_with(name)? {
            return process.read(name).map(String::into_bytes).ok_or(Errno::ENODATA);
        }
        let mut core = self.core();
        let (device, file) = find(&core, self.mount, name)?;
        let value = match device.of {
            Of::Mount => of_mount(&core, self.mount, file),
            Of::Locks(import) => {
                let locks = &core.peer(import).ok_or(Errno::ENODATA)?.locks;
                Some(if file == "lock_count" { locks.len() } else { locks.unused_len() })
                    .map(|count| format!("{count}\n"))
            }
            Of::Target { target, import, device } => {
                let moment = core.moment();
                let shown = core.peer(import).map(|peer| &peer.shown).ok_or(Errno::ENODATA)?;
                let (checks, begun) = (!shown.has_no_checksums, shown.stats_begun);
                let before = shown.rpcs_begun.clone();
                let cache = core.mounts.get(&self.mount).map(|mount| &mount.data.cache);
                let view = cache.zip(target).and_then(|(cache, target)| cache.target(target));
                let import = core.client().import(import).ok_or(Errno::ENODATA)?;
                match file {
                    "checksums" => Some(format!("{}\n", u64::from(checks))),
                    "stats" => Some(figures::stats(import.recent_stats(), moment.since(begun))),
                    "rpc_stats" => view.map(|view| {
                        let (begun, before) = before.unzip();
                        let moment = moment.since(begun);
                        figures::rpcs((&import.stats(), before.as_ref()), &view, moment)
                    }),
                    _ => of_target(file, &device, import, view.as_ref()),
                }
            }
        };
        value.map(String::into_bytes).ok_or(Errno::ENODATA)
    }

    /// Sets a parameter until the mount ends, or begins counters again. The limits of targets are those of all targets of
    /// the mount.
    ///
    /// # Errors
    /// EPERM for others than the superuser, ENODATA if there is none of this name, EACCES if it is only read, EINVAL if the
    /// value is not a number and ERANGE if it is too small or too large.
    pub(crate) fn set_tunable(
        &self,
        caller: &Caller,
        name: &str,
        value: &[u8],
    ) -> Result<(), Errno> {
        // Others may have every capability in a namespace of their own.
        if caller.uid != 0 {
            return Err(Errno::EPERM);
        }
        if let Some(process) = self.process_with(name)? {
            let value = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
            return process.write(name, value);
        }
        let mut core = self.core();
        let (device, file) = find(&core, self.mount, name)?;
        if let Some(cleared) = self.clear(&mut core, &device.of, file) {
            return cleared;
        }
        if let (Of::Target { import, .. }, "checksums") = (&device.of, file) {
            let is_on = is_on(value)?;
            let peer = core.peer_mut(*import).ok_or(Errno::ENODATA)?;
            peer.shown.has_no_checksums = !is_on;
            return Ok(());
        }
        let settings = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?.data.settings();
        let settings = match device.of {
            Of::Mount | Of::Target { target: Some(Target::Ost(_)), .. } => {
                changed(settings, file, value)?
            }
            _ => return Err(Errno::EACCES),
        };
        let now = core.now;
        core.with_data(self.mount, |data| data.configure(now, settings)).ok_or(Errno::ESHUTDOWN)
    }
}

impl Context {
    /// Begins counters again, whatever is written to them; `None` for what are none.
    fn clear(&self, core: &mut Core, of: &Of, file: &str) -> Option<Result<(), Errno>> {
        let now = core.moment().now;
        match (of, file) {
            (Of::Mount, "stats" | "read_ahead_stats") => {
                let Some(mount) = core.mounts.get_mut(&self.mount) else {
                    return Some(Err(Errno::ESHUTDOWN));
                };
                let operations = &mut mount.operations;
                match file {
                    "stats" => {
                        operations.counts.clear();
                        operations.begun = Some(now);
                    }
                    _ => operations.pages_begun = Some((now, mount.data.cache.page_counts())),
                }
            }
            (Of::Target { import, .. }, "stats" | "rpc_stats") => {
                let found = core.client().import(*import).map(Import::stats);
                let (Some(stats), Some(peer)) = (found, core.peer_mut(*import)) else {
                    return Some(Err(Errno::ENODATA));
                };
                match file {
                    "stats" => {
                        peer.shown.stats_begun = Some(now);
                        core.client().clear_stats(*import);
                    }
                    _ => peer.shown.rpcs_begun = Some((now, stats)),
                }
            }
            _ => return None,
        }
        Some(Ok(()))
    }
}

/// Returns whether a switch is to be on.
fn is_on(value: &[u8]) -> Result<bool, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
    match text.trim() {
        "1" | "y" | "Y" | "on" => Ok(true),
        "0" | "n" | "N" | "off" => Ok(false),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns what has parameters.
fn devices(core: &Core, mount: MountId) -> Result<Vec<Device>, Errno> {
    let state = core.mounts.get(&mount).ok_or(Errno::ESHUTDOWN)?;
    let number = state.instance();
    let path = format!("llite/{}-{number}", state.address.name);
    let mut all = vec![Device { path, files: OF_MOUNT, of: Of::Mount }];
    let mut locks = Vec::new();
    let mut add = |(area, files), device: String, target, import: ImportId| {
        let path = format!("ldlm/namespaces/{device}");
        locks.push(Device { path, files: OF_LOCKS, of: Of::Locks(import) });
        let path = format!("{area}/{device}");
        all.push(Device { path, files, of: Of::Target { target, import, device } });
    };
    if let (Some(import), Some(first)) = (state.mgs, state.address.mgs.first()) {
        add(("mgc", OF_MGS), format!("MGC{first}"), None, import);
    }
    for found in state.configuration.targets() {
        let (about, imports, target) = match found.kind {
            TargetKind::Mdt => (("mdc", OF_MDT), &state.mdts, Target::Mdt(found.index)),
            _ => (("osc", OF_OST), &state.osts, Target::Ost(found.index)),
        };
        if let Some(import) = imports.get(&found.index) {
            add(about, format!("{}-{number}", found.device), Some(target), *import);
        }
    }
    all.append(&mut locks);
    Ok(all)
}

/// Returns whose a parameter is, and which.
fn find(core: &Core, mount: MountId, name: &str) -> Result<(Device, &'static str), Errno> {
    let (path, file) = name.rsplit_once('/').ok_or(Errno::ENODATA)?;
    let device = devices(core, mount)?.into_iter().find(|one| one.path == path);
    let device = device.ok_or(Errno::ENODATA)?;
    let file = device.files.iter().find(|known| **known == file).ok_or(Errno::ENODATA)?;
    Ok((device, file))
}

fn of_mount(core: &Core, mount: MountId, file: &str) -> Option<String> {
    let mount = core.mounts.get(&mount)?;
    let (data, settings) = (&mount.data, mount.data.settings());
    match file {
        "max_cached_mb" => {
            let gauges = data.cache.gauges();
            let used = gauges.demand + gauges.write_back + gauges.speculation;
            return Some(figures::cached(data.files.len(), settings.memory, used));
        }
        "stats" => {
            let moment = core.moment().since(mount.operations.begun);
            return Some(figures::operations(&mount.operations.counts, moment));
        }
        "read_ahead_stats" => {
            let (begun, before) = mount.operations.pages_begun.unzip();
            let (now, before) = (data.cache.page_counts(), before.unwrap_or_default());
            let (hits, misses) = (now.hits - before.hits, now.misses - before.misses);
            return Some(figures::pages_read(hits, misses, core.moment().since(begun)));
        }
        _ => {}
    }
    // Each stream has this limit, and no more than a quarter of the memory.
    let most = settings.read_ahead_max.unwrap_or(u64::MAX).min(settings.memory / 4);
    Some(format!("{}\n", most >> 20))
}

fn of_target(
    file: &str,
    device: &str,
    import: &Import,
    view: Option<&TargetView>,
) -> Option<String> {
    let number = match file {
        "cur_dirty_bytes" => view?.dirty,
        "cur_grant_bytes" => view?.grant,
        "max_dirty_mb" => view?.dirty_max >> 20,
        "max_rpcs_in_flight" => match import.target().kind {
            TargetKind::Ost => view.map(|view| view.reads.window.max(view.writes.window))?,
            _ => import.target().in_flight_max as u64,
        },
        "import" => return Some(Connection { device, import, view }.text()),
        _ => return None,
    };
    Some(format!("{number}\n"))
}

/// Returns the settings with a new value of a parameter.
fn changed(settings: Settings, file: &str, value: &[u8]) -> Result<Settings, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
    // A kernel's client also takes the line as it prints it.
    let text = text.strip_prefix("max_cached_mb:").unwrap_or(text).trim();
    let number = || integer(text).ok_or(Errno::EINVAL);
    let size = |least: u64| {
        let number = number()?;
        let is_possible = (least >> 20..=MIB_MAX).contains(&number);
        if is_possible { Ok(number << 20) } else { Err(Errno::ERANGE) }
    };
    match file {
        "max_cached_mb" => Ok(Settings { memory: size(Settings::MEMORY_MIN)?, ..settings }),
        "max_read_ahead_mb" | "max_read_ahead_per_file_mb" => {
            Ok(Settings { read_ahead_max: Some(size(0)?), ..settings })
        }
        "max_dirty_mb" => Ok(Settings { dirty_max: Some(size(1 << 20)?), ..settings }),
        "max_rpcs_in_flight" => match number()? {
            number @ 1..=RPCS_MAX => {
                Ok(Settings { rpcs_in_flight: Some(number as u32), ..settings })
            }
            _ => Err(Errno::ERANGE),
        },
        _ => Err(Errno::EACCES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_checked() {
        let set = |file, value: &str| changed(Settings::default(), file, value.as_bytes());
        assert_eq!(set("max_cached_mb", "128\n").unwrap().memory, 128 << 20);
        assert_eq!(set("max_cached_mb", "max_cached_mb: 64").unwrap().memory, 64 << 20);
        assert_eq!(set("max_read_ahead_mb", "0").unwrap().read_ahead_max, Some(0));
        assert_eq!(set("max_dirty_mb", "0x10").unwrap().dirty_max, Some(16 << 20));
        assert_eq!(set("max_rpcs_in_flight", "256").unwrap().rpcs_in_flight, Some(256));
        for (file, value) in [
            ("max_cached_mb", "63"),
            ("max_dirty_mb", "0"),
            ("max_dirty_mb", "17592186044416"),
            ("max_rpcs_in_flight", "0"),
            ("max_rpcs_in_flight", "257"),
        ] {
            assert_eq!(set(file, value).unwrap_err(), Errno::ERANGE, "{file}={value}");
        }
        for value in ["", "-1", "many", "1 2"] {
            assert_eq!(set("max_dirty_mb", value).unwrap_err(), Errno::EINVAL, "{value}");
        }
        assert_eq!(set("import", "1").unwrap_err(), Errno::EACCES);
        assert_eq!((is_on(b"1\n"), is_on(b"0")), (Ok(true), Ok(false)));
        assert_eq!(is_on(b"2"), Err(Errno::EINVAL));
    }
}
