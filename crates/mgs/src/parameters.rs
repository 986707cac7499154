//! Parameters that an administrator sets for good: `lctl conf_param` for the targets and clients of a file
//! system, `lctl set_param -P` for all nodes that they fit. Spec: ptlrpc-ldlm-mgs §31.

use fulmar_base::Errno;
use fulmar_lustre_wire::llog::config::{
    Config, ConfigBuffer, ConfigCommand, ConfigRecord, MarkerFlags,
};
use fulmar_rpc::import::TargetKind;
use fulmar_text::integer;

use crate::log::LiveGroup;
use crate::records::Group;
use crate::register::ConfigurationChange;
use crate::service::{Mgs, file_system_of};
use crate::target::TargetName;

/// The log of parameters of all nodes.
pub(crate) const PARAMS: &str = "params";
/// The target of parameters that are not about one file system.
const GENERAL: &str = "general";
/// The program that sets parameters on a node.
const UPCALL: &str = "lctl";
/// The longest parameter, with its value.
const LEN_MAX: usize = 4095;
/// The longest name of a device.
const DEVICE_MAX: usize = 63;
/// Parameters that have several values at once: a new one does not replace the others.
const COMPOUND: [&str; 3] = ["nrs_tbf_rule", "pcc", "wbc"];

/// A parameter as it is given: `osc.max_dirty_mb=64`.
#[derive(Clone, Copy)]
struct Setting<'a> {
    text: &'a str,
    name: &'a str,
    /// Not empty.
    value: Option<&'a str>,
    deletes: bool,
}

/// What a parameter is about: the first part of the text.
struct Subject<'a> {
    file_system: String,
    /// The target; `None` for the whole file system.
    target: Option<TargetName>,
    setting: Setting<'a>,
}

impl<'a> Setting<'a> {
    /// Without a value a parameter is deleted.
    fn new(text: &'a str, deletes: bool) -> Result<Self, Errno> {
        if text.len() > LEN_MAX {
            return Err(Errno::E2BIG);
        }
        if text.contains('\0') {
            return Err(Errno::EINVAL);
        }
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let value = Some(value).filter(|value| !value.is_empty());
        Ok(Self { text, name, value, deletes: deletes || value.is_none() })
    }

    /// Returns the part of the name before its first point, and what follows.
    fn area(&self) -> (&'a str, &'a str) {
        self.name.split_once('.').unwrap_or((self.name, ""))
    }

    fn is_compound(&self) -> bool {
        COMPOUND.contains(&self.name.rsplit('.').next().unwrap_or_default())
    }

    fn is_of(&self, names: &[&str]) -> bool {
        names.contains(&self.area().1)
    }
}

impl Mgs {
    /// Sets a parameter of a target or a file system, such as `lv-OST0000.osc.max_dirty_mb=64` or
    /// `lv.sys.timeout=40`, or deletes it. `now`: seconds since 1970.
    ///
    /// # Errors
    /// EINVAL if there is no such file system or parameter, or the value is wrong; ENOENT if it is to be
    /// deleted and was never set; ENODEV for a target that is not known; EPERM for what is not changed
    /// so, EOPNOTSUPP for rules of the security and nodes of a target, E2BIG for long names. This value is
    /// of no use then: work on a clone.
    pub fn set_parameter(
        &mut self,
        now: i64,
        text: &str,
        deletes: bool,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let subject = subject(text, deletes)?;
        if self.targets_of(&subject.file_system).next().is_none() {
            return Err(Errno::EINVAL);
        }
        match subject.setting.name {
            "failover.mode" => return Err(Errno::EPERM),
            "failover.node" => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        if self.set_of(now, &subject)? {
            Ok(vec![ConfigurationChange::Configuration(subject.file_system)])
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// Sets the parameters with which a target registers. Unknown ones are ignored.
    ///
    /// # Errors
    /// As [`Mgs::set_parameter`].
    pub(crate) fn set_registered(
        &mut self,
        now: i64,
        target: &TargetName,
        parameters: &str,
    ) -> Result<(), Errno> {
        for text in parameters.split_whitespace() {
            let setting = Setting::new(text, false)?;
            if setting.area().0 == "failover" || setting.value.is_none() {
                continue;
            }
            let (file_system, target) = (target.file_system.clone(), Some(target.clone()));
            self.set_of(now, &Subject { file_system, target, setting })?;
        }
        Ok(())
    }

    /// Sets a parameter of all nodes that it fits, such as `osc.*.max_dirty_mb=64`, or deletes it.
    ///
    /// # Errors
    /// As [`Mgs::set_parameter`].
    pub fn set_parameter_of_all(
        &mut self,
        now: i64,
        text: &str,
        deletes: bool,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let setting = Setting::new(text, deletes)?;
        let (area, rest) = setting.area();
        if area.is_empty() {
            return Err(Errno::EINVAL);
        }
        let is_squash = ["root_squash", "nosquash_nids"].iter().any(|name| rest.contains(name));
        match setting.name {
            "mgsnode" | "network" => return Ok(Vec::new()),
            "failover.mode" => return Err(Errno::EPERM),
            _ if area == "srpc" => return Err(Errno::EOPNOTSUPP),
            name if name.contains("failover.node") => return Err(Errno::EOPNOTSUPP),
            _ if area == "llite" && is_squash => return Err(Errno::EINVAL),
            _ => {}
        }
        // As a kernel MGS finds it: the name of a file system somewhere in the rest.
        let rest = text.split_once(['.', '=']).map_or("", |(_, rest)| rest);
        let named = self.file_systems().into_iter().filter(|fs| rest.contains(fs.as_str()));
        let target = if rest.is_empty() || setting.area().1.is_empty() {
            None
        } else {
            named.max_by_key(String::len)
        };
        let target = target.unwrap_or_else(|| GENERAL.to_owned());
        self.make_log(PARAMS, now);
        let parameter = text.to_owned();
        let record =
            Config::SetParam { target: target.clone(), parameter, upcall: Some(UPCALL.to_owned()) };
        self.write(now, PARAMS, &target, &setting, record)?;
        Ok(vec![ConfigurationChange::Parameters])
    }

    /// Sets a parameter, and returns whether it is known.
    fn set_of(&mut self, now: i64, subject: &Subject<'_>) -> Result<bool, Errno> {
        let setting = &subject.setting;
        let (area, rest) = setting.area();
        match (area, setting.name) {
            (_, "mgsnode" | "network") => {}
            ("srpc", _) => return Err(Errno::EOPNOTSUPP),
            ("sys", _) => self.set_global(now, subject)?,
            ("quota", _) => self.set_quota(now, subject)?,
            ("lov", _) => self.set_striping(now, subject)?,
            ("osc" | "mdc" | "llite", _) => self.set_of_clients(now, subject)?,
            ("mdt", _) => self.set_of_mdts(now, subject, rest)?,
            ("mdd" | "lod" | "ost" | "osd", _) => {
                let log = subject.name();
                self.log_named(&log).ok_or(Errno::ENODEV)?;
                self.write_of(now, &log, &log, setting)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets `sys.*`, for all clients and targets.
    fn set_global(&mut self, now: i64, subject: &Subject<'_>) -> Result<(), Errno> {
        let setting = &subject.setting;
        let command = match setting.area().1 {
            "timeout" => ConfigCommand::SET_TIMEOUT,
            "ldlm_timeout" => ConfigCommand::SET_LDLM_TIMEOUT,
            "at_min" | "at_max" | "at_extra" | "at_early_margin" | "at_history" | "jobid_var" => {
                ConfigCommand::PARAM
            }
            _ => return Err(Errno::EINVAL),
        };
        let is_text = setting.is_of(&["jobid_var"]);
        let value = setting.value.filter(|_| !setting.deletes);
        let record = value.map(|value| {
            let mut texts = vec![ConfigBuffer::default(), ConfigBuffer::text(setting.text)];
            texts.extend(is_text.then(|| ConfigBuffer::text(value)));
            let number = integer(value).and_then(|number| u32::try_from(number).ok());
            let number = if is_text { 0 } else { number.ok_or(Errno::EINVAL)? };
            Ok(Config::Other(ConfigRecord { number, ..ConfigRecord::new(command, texts) }))
        });
        let logs = self.logs_of(&subject.file_system);
        self.write_to_all(now, &logs, &subject.file_system, setting.name, record.transpose()?)
    }

    /// Sets `quota.mdt` and `quota.ost`, for all targets.
    fn set_quota(&mut self, now: i64, subject: &Subject<'_>) -> Result<(), Errno> {
        let (setting, fs) = (&subject.setting, &subject.file_system);
        let is_allowed = |value: &str| value == "none" || value.contains(['u', 'g', 'p']);
        if !setting.is_of(&["mdt", "ost"]) || !setting.value.is_none_or(is_allowed) {
            return Err(Errno::EINVAL);
        }
        let record = (!setting.deletes).then(|| param(fs, setting.text));
        let mut logs = self.logs_of(fs);
        logs.retain(|log| !log.ends_with("-client"));
        self.write_to_all(now, &logs, fs, setting.name, record)
    }

    /// Sets `lov.*` of an MDT, for it and for clients.
    fn set_striping(&mut self, now: i64, subject: &Subject<'_>) -> Result<(), Errno> {
        let fs = &subject.file_system;
        let Some(mdt) = subject.target.as_ref().filter(|one| one.kind == TargetKind::Mdt) else {
            return Err(Errno::EINVAL);
        };
        let log = mdt.to_string();
        self.log_named(&log).ok_or(Errno::ENODEV)?;
        self.write_of(now, &log, &format!("{mdt}-mdtlov"), &subject.setting)?;
        self.write_of(now, &format!("{fs}-client"), &format!("{fs}-clilov"), &subject.setting)
    }

    /// Sets `osc.*` and `mdc.*` of a target, also for the MDTs, or `llite.*` of a file system.
    fn set_of_clients(&mut self, now: i64, subject: &Subject<'_>) -> Result<(), Errno> {
        let (setting, fs) = (&subject.setting, &subject.file_system);
        let client = format!("{fs}-client");
        let is_squash = setting.is_of(&["root_squash", "nosquash_nids"]);
        match (setting.area().0, &subject.target) {
            // What the MDT says holds.
            ("llite", None) if !is_squash => self.write_of(now, &client, &client, setting),
            ("osc" | "mdc", Some(target)) => {
                let is_active = setting.is_of(&["active"]);
                if is_active {
                    self.mark_active(now, target, setting)?;
                }
                let kind = if target.kind == TargetKind::Mdt { "mdc" } else { "osc" };
                self.write_of(now, &client, &format!("{target}-{kind}"), setting)?;
                for mdt in self.mdts_of(fs).iter().filter(|mdt| *mdt != target) {
                    let log = mdt.to_string();
                    if target.kind == TargetKind::Ost {
                        let device = format!("{target}-osc-{}", mdt.suffix());
                        self.write_of(now, &log, &device, setting)?;
                    } else if is_active && setting.area().0 == "mdc" {
                        self.activate(now, target, mdt, setting)?;
                    }
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Marks a target as one that is not used, or is used again.
    fn mark_active(
        &mut self,
        now: i64,
        target: &TargetName,
        setting: &Setting<'_>,
    ) -> Result<(), Errno> {
        let is_off = setting.deletes || setting.value.is_some_and(|value| value.starts_with('0'));
        let flags = if is_off { MarkerFlags::EXCLUDE } else { MarkerFlags(0) };
        let (of_client, of_mdt) = match setting.area().0 {
            "osc" => ("add osc", "add osc"),
            _ if target.index == 0 => return Err(Errno::EPERM),
            _ => ("add mdc", "add osp"),
        };
        let name = target.to_string();
        let client = (format!("{}-client", target.file_system), of_client);
        let mdts = self.mdts_of(&target.file_system);
        let mdts = mdts.iter().map(|mdt| (mdt.to_string(), of_mdt));
        for (log, comment) in std::iter::once(client).chain(mdts) {
            if let Some(log) = self.log_mut(&log) {
                log.mark(&name, comment, flags, now);
            }
        }
        Ok(())
    }

    /// Switches the connection from one MDT to another off or on.
    fn activate(
        &mut self,
        now: i64,
        target: &TargetName,
        mdt: &TargetName,
        setting: &Setting<'_>,
    ) -> Result<(), Errno> {
        let (log, device) = (mdt.to_string(), format!("{target}-osp-{}", mdt.suffix()));
        let value = setting.value.unwrap_or_default();
        let of_osp = format!("osp.active={value}");
        self.write_of(now, &log, &device, &Setting::new(&of_osp, setting.deletes)?)?;
        let of_lod = format!("{device}.active={}", u8::from(!value.starts_with('0')));
        let of_lod = Setting::new(&of_lod, setting.deletes)?;
        self.write_of(now, &log, &format!("{mdt}-mdtlov"), &of_lod)
    }

    /// Sets `mdt.*` of an MDT or of all.
    fn set_of_mdts(&mut self, now: i64, subject: &Subject<'_>, rest: &str) -> Result<(), Errno> {
        let (setting, fs) = (&subject.setting, &subject.file_system);
        let is_squash = setting.is_of(&["root_squash", "nosquash_nids"]);
        let mdts = match &subject.target {
            None => self.mdts_of(fs),
            Some(mdt) if mdt.kind == TargetKind::Mdt && !is_squash => vec![mdt.clone()],
            Some(_) => return Err(Errno::EINVAL),
        };
        for mdt in mdts {
            let log = mdt.to_string();
            self.write_of(now, &log, &log, setting)?;
        }
        if is_squash {
            // Clients squash too.
            let value = setting.value.unwrap_or_default();
            let (text, client) = (format!("llite.{rest}={value}"), format!("{fs}-client"));
            self.write_of(now, &client, &client, &Setting::new(&text, setting.deletes)?)?;
        }
        Ok(())
    }

    fn write_of(
        &mut self,
        now: i64,
        log: &str,
        device: &str,
        setting: &Setting<'_>,
    ) -> Result<(), Errno> {
        self.write(now, log, device, setting, param(device, setting.text))
    }

    /// Writes a parameter of a device into a log: what it replaces is cancelled, and what is there already
    /// stays.
    fn write(
        &mut self,
        now: i64,
        log_name: &str,
        device: &str,
        setting: &Setting<'_>,
        record: Config,
    ) -> Result<(), Errno> {
        let is_it = |group: &LiveGroup| group.target == device && group.comment == setting.name;
        let mut old = self.log_named(log_name).map(|log| log.live_groups()).unwrap_or_default();
        let is_empty = old.is_empty();
        old.retain(is_it);
        let is_same = |group: &LiveGroup| setting.value.is_none_or(|value| has_value(group, value));
        if setting.deletes {
            old.retain(is_same);
            if old.is_empty() && !is_empty {
                return Err(Errno::ENOENT);
            }
        } else if setting.is_compound() {
            if old.iter().any(is_same) {
                return Ok(());
            }
            old.clear();
        } else {
            old.truncate(1);
            if old.iter().any(is_same) {
                return Ok(());
            }
        }
        if let Some(log) = self.log_mut(log_name) {
            old.iter().for_each(|group| log.cancel_group(group, now));
        }
        if setting.deletes {
            Ok(())
        } else {
            self.append(log_name, &Group::new(device, setting.name, vec![record]), now)
        }
    }

    /// Writes a parameter into several logs, or deletes it there.
    fn write_to_all(
        &mut self,
        now: i64,
        logs: &[String],
        device: &str,
        name: &str,
        record: Option<Config>,
    ) -> Result<(), Errno> {
        for log_name in logs {
            if let Some(log) = self.log_mut(log_name) {
                log.cancel(device, name, now);
            }
            if let Some(record) = &record {
                self.append(log_name, &Group::new(device, name, vec![record.clone()]), now)?;
            }
        }
        Ok(())
    }

    /// Returns the logs of the clients and targets of a file system.
    fn logs_of(&self, file_system: &str) -> Vec<String> {
        let of_it = |name: &&str| file_system_of(name) == file_system && *name != PARAMS;
        self.log_names().filter(of_it).map(str::to_owned).collect()
    }
}

impl Subject<'_> {
    /// Returns the name of the target, or of the file system.
    fn name(&self) -> String {
        self.target.as_ref().map_or_else(|| self.file_system.clone(), ToString::to_string)
    }
}

fn subject(text: &str, deletes: bool) -> Result<Subject<'_>, Errno> {
    let end = text.find(['.', '=']).filter(|end| *end > 0).ok_or(Errno::EINVAL)?;
    let (device, rest) = text.split_at(end);
    let parameter = rest.strip_prefix('.').ok_or(Errno::EINVAL)?;
    if device.len() > DEVICE_MAX {
        return Err(Errno::E2BIG);
    }
    let setting = Setting::new(parameter, deletes)?;
    // A device of a client for it is as good.
    let name = ["-osc", "-mdc"].iter().find_map(|end| device.strip_suffix(end)).unwrap_or(device);
    let target = TargetName::parse(name);
    let file_system = match &target {
        Some(target) => target.file_system.clone(),
        None => device.to_owned(),
    };
    Ok(Subject { file_system, target, setting })
}

fn param(device: &str, text: &str) -> Config {
    Config::Param { device: device.to_owned(), parameters: vec![text.to_owned()] }
}

/// Returns whether a group sets a parameter to this value. How many blanks there are does not matter.
fn has_value(group: &LiveGroup, value: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let text = group.records.iter().find_map(|record| match record {
        Config::Param { parameters, .. } => parameters.first(),
        Config::SetParam { parameter, .. } => Some(parameter),
        _ => None,
    });
    let old = text.and_then(|text| text.split_once('='));
    old.is_some_and(|(_, old)| words(old) == words(value))
}
