//! The texts of statistics as parts of a sample: what targets and mounts have for `lctl get_param`.

use std::collections::BTreeMap;

use crate::sample::{Connection, Counter, Target};

/// A parameter: the parts of its name, and its text.
pub type Parameter = (Vec<String>, String);

/// The patterns of the parameters of targets that are shown.
pub const OF_TARGETS: [&str; 9] = [
    "obdfilter.*.stats",
    "mdt.*.md_stats",
    "obdfilter.*.kbytestotal",
    "obdfilter.*.kbytesavail",
    "obdfilter.*.filestotal",
    "obdfilter.*.filesfree",
    "obdfilter.*.tot_granted",
    "ldlm.namespaces.*.lock_count",
    "ldlm.namespaces.*.pool.granted",
];

/// The patterns of the parameters of mounts that are shown.
pub const OF_MOUNTS: [&str; 6] = [
    "*.*.import",
    "*.*.stats",
    "osc.*.cur_dirty_bytes",
    "osc.*.cur_grant_bytes",
    "ldlm.namespaces.*.lock_count",
    "ldlm.namespaces.*.lock_unused_count",
];

/// Adds what parameters say of targets.
pub fn describe(targets: &mut [Target], parameters: &[Parameter]) {
    for (name, text) in parameters {
        let parts: Vec<&str> = name.iter().map(String::as_str).collect();
        let number = || text.trim().parse::<u64>().unwrap_or(0);
        if let ["ldlm", "namespaces", space, ref file @ ..] = parts[..] {
            // That of an MGS has its name.
            let named = space.strip_prefix("mdt-").or(space.strip_prefix("filter-"));
            let named = named.and_then(|uuid| uuid.strip_suffix("_UUID")).unwrap_or(space);
            let own = targets.iter_mut().find(|one| one.name == named);
            match (own, file) {
                (Some(own), ["lock_count"]) => own.locks = Some(number()),
                (Some(own), ["pool", "granted"]) => own.locks_granted = Some(number()),
                _ => {}
            }
            continue;
        }
        let [_, device, file] = parts[..] else { continue };
        let Some(target) = targets.iter_mut().find(|one| one.name == device) else { continue };
        match file {
            "stats" | "md_stats" => target.counters = counters(text),
            "kbytestotal" => target.size_kib = number(),
            "kbytesavail" => target.free_kib = number(),
            "filestotal" => target.files = number(),
            "filesfree" => target.files_free = number(),
            "tot_granted" => target.granted = number(),
            _ => {}
        }
    }
}

/// Returns the connections of mounts that parameters tell of. Those without a state are no connections.
pub fn connections(parameters: &[Parameter]) -> Vec<Connection> {
    let mut all: BTreeMap<String, Connection> = BTreeMap::new();
    for (name, text) in parameters {
        let parts: Vec<&str> = name.iter().map(String::as_str).collect();
        let number = || text.trim().parse::<u64>().ok();
        let (device, file) = match parts[..] {
            ["ldlm", "namespaces", device, file] => (device, file),
            [area @ ("osc" | "mdc" | "mgc"), device, file] => {
                let one = all.entry(device.to_owned()).or_default();
                (one.mount, one.device) = split(area, device);
                (device, file)
            }
            _ => continue,
        };
        let one = all.entry(device.to_owned()).or_default();
        match file {
            "import" => read_import(one, text),
            "stats" => one.counters = counters(text),
            "cur_dirty_bytes" => one.dirty = number().unwrap_or(0),
            "cur_grant_bytes" => one.granted = number().unwrap_or(0),
            "lock_count" => one.locks = number(),
            "lock_unused_count" => one.locks_unused = number(),
            _ => {}
        }
    }
    all.into_values().filter(|one| !one.state.is_empty()).collect()
}

/// Returns the mount of a device, and its name without the number of the mount: of `lv-OST0000-osc-ff12` in the area
/// `osc`, `lv-ff12` and `lv-OST0000`.
fn split(area: &str, device: &str) -> (String, String) {
    let found = device.rsplit_once('-').and_then(|(rest, number)| {
        let target = rest.strip_suffix(area)?.strip_suffix('-')?;
        Some((target, number))
    });
    match found {
        Some((target, number)) => {
            let fsname = target.rsplit_once('-').map_or(target, |(fsname, _)| fsname);
            (format!("{fsname}-{number}"), target.to_owned())
        }
        None => (String::new(), device.to_owned()),
    }
}

/// Reads what is shown of `import`.
fn read_import(one: &mut Connection, text: &str) {
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        match key {
            "state" => one.state = value.to_owned(),
            "inflight" => one.in_flight = value.parse().unwrap_or(0),
            "current_connection" => one.nid = value.trim_matches('"').to_owned(),
            _ => {}
        }
    }
}

/// Reads lines such as `read_bytes 3 samples [bytes] 4096 1048576 2101248 0`. Other lines are not counters.
fn counters(text: &str) -> Vec<Counter> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let samples = words.next()?.parse().ok()?;
        (words.next()? == "samples").then_some(())?;
        // After the unit: the least, the most, and the sum.
        let sum = words.nth(3).and_then(|sum| sum.parse().ok()).unwrap_or(0);
        Some(Counter { name, samples, sum })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Parameter {
        (name.split('/').map(str::to_owned).collect(), text.to_owned())
    }

    const STATS: &str = "snapshot_time                       1795392111.000000000 secs.nsecs\n\
        read_bytes                          3 samples [bytes] 4096 1048576 2101248 1103806595072\n\
        punch                               1 samples [usecs] 7 7 7 49\n";

    #[test]
    fn targets_have_their_counters_and_sizes() {
        let mut targets = ["lv-OST0000", "lv-MDT0000", "MGS"]
            .map(|name| Target { name: name.into(), ..Target::default() });
        describe(
            &mut targets,
            &[
                of("obdfilter/lv-OST0000/stats", STATS),
                of("obdfilter/lv-OST0000/kbytestotal", "1024\n"),
                of("obdfilter/lv-OST0000/kbytesavail", "many\n"),
                of("ldlm/namespaces/filter-lv-OST0000_UUID/lock_count", "12\n"),
                of("ldlm/namespaces/filter-lv-OST0000_UUID/pool/granted", "10\n"),
                of("ldlm/namespaces/filter-xlv-OST0000_UUID/lock_count", "13\n"),
                of("ldlm/namespaces/mdt-lv-MDT0000_UUID/lock_count", "14\n"),
                of("ldlm/namespaces/MGS/lock_count", "15\n"),
                of("obdfilter/lv-OST0009/stats", STATS),
            ],
        );
        let counter = |name: &str, samples, sum| Counter { name: name.into(), samples, sum };
        assert_eq!(
            targets[0].counters,
            [counter("read_bytes", 3, 2_101_248), counter("punch", 1, 7)]
        );
        assert_eq!(
            (targets[0].size_kib, targets[0].free_kib, targets[0].locks),
            (1024, 0, Some(12))
        );
        assert_eq!(targets[1].counters, []);
        assert_eq!((targets[1].locks, targets[2].locks), (Some(14), Some(15)));
    }

    #[test]
    fn connections_belong_to_their_mounts() {
        let import = "import:\n    name: lv-OST0000-osc-ff12\n    state: FULL\n    connection:\n       \
            current_connection: \"10.0.0.1@tcp\"\n    rpcs:\n       inflight: 3\n";
        let all = connections(&[
            of("osc/lv-OST0000-osc-ff12/import", import),
            of("osc/lv-OST0000-osc-ff12/stats", STATS),
            of("osc/lv-OST0000-osc-ff12/cur_dirty_bytes", "4096\n"),
            of("mgc/MGC10.0.0.1@tcp/import", "import:\n    state: DISCONN\n"),
            of("llite/lv-ff12/stats", STATS),
            of("ldlm/namespaces/lv-OST0000-osc-ff12/lock_count", "5\n"),
            of("ldlm/namespaces/other/lock_count", "5\n"),
        ]);
        assert_eq!(all.len(), 2);
        let ost = all.iter().find(|one| one.device == "lv-OST0000").unwrap();
        assert_eq!((ost.mount.as_str(), ost.state.as_str()), ("lv-ff12", "FULL"));
        assert_eq!((ost.nid.as_str(), ost.in_flight, ost.dirty), ("10.0.0.1@tcp", 3, 4096));
        assert_eq!((ost.locks, ost.counters.len()), (Some(5), 2));
        let mgs = all.iter().find(|one| one.state == "DISCONN").unwrap();
        assert_eq!((mgs.mount.as_str(), mgs.device.as_str()), ("", "MGC10.0.0.1@tcp"));
    }
}
