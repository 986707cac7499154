//! Parameters that an administrator has set for good: for the devices of every client with
//! `lctl set_param -P`, and for a target. Spec: ptlrpc-ldlm-mgs §31.2 to §31.4.

use fulmar_lustre_wire::llog::config::{Config, ConfigCommand, ConfigRecord, MarkerFlags};
use fulmar_text::pattern::is_like;

/// A parameter of a target that an administrator has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name as `lctl get_param` knows it, where `*` stands for the target or any: `mdt.*.root_squash`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it is one of all nodes that it fits (`lctl set_param -P`), and not of this target.
    pub is_for_all: bool,
}

impl Setting {
    /// Returns the part of its name before the first dot.
    pub fn area(&self) -> &str {
        self.name.split_once('.').map_or(&self.name, |(area, _)| area)
    }
}

/// Returns what the log of a target and that for all nodes set, in the order in which it counts.
pub(crate) fn settings(target: &str, own: &[Config], all: &[Config]) -> Vec<Setting> {
    let own = live(own).flat_map(|record| settings_of(target, record));
    let all = live(all).filter_map(|record| match record {
        Config::SetParam { parameter, .. } => setting(parameter, true),
        _ => None,
    });
    own.chain(all).collect()
}

/// Returns the records of groups that are not skipped.
fn live(records: &[Config]) -> impl Iterator<Item = &Config> {
    let mut is_live = false;
    records.iter().filter(move |record| match record {
        Config::Marker { marker, .. } => {
            is_live = !marker.flags.has(MarkerFlags::END) && !marker.flags.has(MarkerFlags::SKIP);
            false
        }
        _ => is_live,
    })
}

/// Returns what a record of the log of a target sets.
fn settings_of(target: &str, record: &Config) -> Vec<Setting> {
    let number = |name: &str, value: u32| vec![named(name, &value.to_string())];
    let texts = match record {
        Config::SetTimeout { seconds, .. } => return number("timeout", *seconds),
        Config::SetLdlmTimeout { seconds, .. } => return number("ldlm_timeout", *seconds),
        Config::Other(ConfigRecord { command, number: value, .. })
            if *command == ConfigCommand::SET_TIMEOUT =>
        {
            return number("timeout", *value);
        }
        Config::Other(ConfigRecord { command, number: value, .. })
            if *command == ConfigCommand::SET_LDLM_TIMEOUT =>
        {
            return number("ldlm_timeout", *value);
        }
        Config::Param { device, parameters } => {
            let texts = parameters.iter().map(String::as_str);
            return texts.filter_map(|text| setting_of(target, device, text)).collect();
        }
        Config::Other(record) if record.command == ConfigCommand::PARAM => &record.buffers[..],
        _ => return vec![],
    };
    let texts = texts.iter().skip(1).filter_map(|buffer| buffer.as_text());
    texts.filter_map(|text| setting_of(target, "", text)).collect()
}

/// Returns what a parameter such as `mdt.root_squash=99:99` of a device sets.
fn setting_of(target: &str, device: &str, text: &str) -> Option<Setting> {
    let Setting { name, value, .. } = setting(text, false)?;
    let (area, rest) = name.split_once('.')?;
    let name = match area {
        "sys" => rest.to_owned(),
        "quota" => name,
        // What an administrator calls `ost` is the device `obdfilter`.
        "ost" if device == target => format!("obdfilter.*.{rest}"),
        "osd" => format!("osd-*.*.{rest}"),
        "mdt" | "mdd" | "lod" => format!("{area}.*.{rest}"),
        _ => format!("{area}.{device}.{rest}"),
    };
    Some(named(&name, &value))
}

fn setting(text: &str, is_for_all: bool) -> Option<Setting> {
    let (name, value) = text.split_once('=')?;
    Some(Setting { is_for_all, ..named(&name.replace('/', "."), value.trim()) })
}

fn named(name: &str, value: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_owned(), is_for_all: false }
}

/// Returns whether a parameter such as `osc.lv-OST0001-osc-*.active=0` switches this device on or
/// off; `None` if it says nothing of that.
pub(crate) fn is_active(parameter: &str, kind: &str, device: &str) -> Option<bool> {
    let (name, value) = parameter.split_once('=')?;
    let pattern = name.strip_suffix(".active")?.strip_prefix(kind)?.strip_prefix('.')?;
    is_like(pattern.as_bytes(), device.as_bytes()).then_some(value.trim() != "0")
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::llog::config::{ConfigBuffer, Marker};

    use super::*;

    fn group(records: impl IntoIterator<Item = Config>, flags: MarkerFlags) -> Vec<Config> {
        let marker = |flags| {
            let marker = Marker { flags, ..Marker::default() };
            Config::Marker { device: String::new(), marker }
        };
        let start = std::iter::once(marker(MarkerFlags::START | flags));
        start.chain(records).chain([marker(MarkerFlags::END | flags)]).collect()
    }

    fn param(device: &str, text: &str) -> Config {
        Config::Param { device: device.to_owned(), parameters: vec![text.to_owned()] }
    }

    #[test]
    fn the_logs_say_what_is_set_for_a_target() {
        let number = |command, value, texts: &[&str]| {
            let texts = texts.iter().map(|text| ConfigBuffer::text(text));
            let buffers = std::iter::once(ConfigBuffer::default()).chain(texts).collect();
            Config::Other(ConfigRecord { number: value, ..ConfigRecord::new(command, buffers) })
        };
        let own = group(
            [
                param("lv-MDT0000", "mdt.root_squash=99:98"),
                param("lv", "quota.mdt=ug"),
                param("lv-MDT0000-mdtlov", "lov.stripesize=4M"),
                param("lv-MDT0000", "osd.auto_scrub=0"),
                number(ConfigCommand::SET_TIMEOUT, 40, &["sys.timeout=40"]),
                number(ConfigCommand::PARAM, 300, &["sys.at_max=300"]),
                Config::SetLdlmTimeout { device: String::new(), seconds: 7 },
            ],
            MarkerFlags::NONE,
        );
        let gone = group([param("lv-MDT0000", "mdt.gone=1")], MarkerFlags::SKIP);
        let set = Config::SetParam {
            target: "general".into(),
            parameter: "mdt/*/job_cleanup_interval=30".into(),
            upcall: None,
        };
        let all = group([set, param("x", "mdt.y=1")], MarkerFlags::NONE);
        let found = settings("lv-MDT0000", &[own, gone].concat(), &all);
        let found: Vec<(&str, &str, bool)> =
            found.iter().map(|one| (&*one.name, &*one.value, one.is_for_all)).collect();
        assert_eq!(
            found,
            [
                ("mdt.*.root_squash", "99:98", false),
                ("quota.mdt", "ug", false),
                ("lov.lv-MDT0000-mdtlov.stripesize", "4M", false),
                ("osd-*.*.auto_scrub", "0", false),
                ("timeout", "40", false),
                ("at_max", "300", false),
                ("ldlm_timeout", "7", false),
                ("mdt.*.job_cleanup_interval", "30", true),
            ]
        );
        let own = group([param("lv-OST0001", "ost.brw_size=1")], MarkerFlags::NONE);
        let found = settings("lv-OST0001", &own, &[]);
        assert_eq!((&*found[0].name, found[0].area()), ("obdfilter.*.brw_size", "obdfilter"));
    }

    #[test]
    fn a_parameter_switches_a_device_off_or_on() {
        let said = |parameter: &str| is_active(parameter, "osc", "lv-OST0001-osc-7");
        assert_eq!(said("osc.lv-OST0001-*.active=0"), Some(false));
        assert_eq!(said("osc.*.active=1"), Some(true));
        for other in ["osc.lv-OST0002-*.active=0", "mdc.*.active=0", "osc.*.max_dirty_mb=0", "osc"]
        {
            assert_eq!(said(other), None, "{other}");
        }
    }
}
