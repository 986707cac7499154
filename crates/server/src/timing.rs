//! The timeouts of a node, which all its targets share. Spec: ptlrpc-ldlm-mgs §7.1.

use std::time::Duration;

use fulmar_net::Running;
use fulmar_rpc::timeouts::Limits;
use fulmar_target::parameters::number;
use fulmar_text::pattern::selects;

use crate::parameters::{NamedValue, Unset};
use crate::run::TargetHost;

/// The names, as an administrator sets them for good: `sys.at_max`.
pub(crate) const NAMES: [&str; 6] =
    ["at_early_margin", "at_extra", "at_history", "at_max", "at_min", "timeout"];
/// What only clients, or kernel nodes, need: it is accepted.
const IGNORED: [&str; 2] = ["jobid_var", "ldlm_timeout"];
/// The longest time in seconds.
const LONGEST: u32 = 24 * 3600;

/// Returns all with their values.
pub(crate) fn all(running: &Running<TargetHost>) -> Vec<NamedValue> {
    // A node that has failed shows nothing.
    let Ok(limits) = running.call(|targets, _| targets.server().timeouts()) else { return vec![] };
    let value = |name| (vec![name], format!("{}\n", get(&limits, name)));
    let named = NAMES.map(value);
    named.map(|(name, text)| (name.into_iter().map(str::to_owned).collect(), text)).to_vec()
}

/// Sets those that a pattern selects, and returns their names.
pub(crate) fn set(
    running: &Running<TargetHost>,
    pattern: &str,
    value: &str,
) -> Result<Vec<String>, Unset> {
    if IGNORED.contains(&pattern) {
        return Ok(vec![pattern.to_owned()]);
    }
    let selected: Vec<&str> = NAMES.into_iter().filter(|name| selects(pattern, &[name])).collect();
    for &name in &selected {
        let invalid = |why| Unset::Invalid { name: name.to_owned(), why };
        let seconds = number(value).map_err(invalid)?;
        let change = move |limits: &mut Limits| put(limits, name, seconds);
        let changed = running.call(move |targets, now| {
            targets.with_server(now, |server| {
                let mut limits = server.timeouts();
                change(&mut limits).map(|()| server.set_timeouts(limits))
            })
        });
        // A node that has failed needs no timeouts.
        changed.unwrap_or(Ok(())).map_err(invalid)?;
    }
    Ok(selected.into_iter().map(str::to_owned).collect())
}

fn get(limits: &Limits, name: &str) -> u64 {
    match name {
        "at_early_margin" => limits.early_margin.as_secs(),
        "at_extra" => limits.early_extra.into(),
        "at_history" => limits.history.as_secs(),
        "at_max" => limits.max.into(),
        "timeout" => limits.base.into(),
        _ => limits.min.into(),
    }
}

fn put(limits: &mut Limits, name: &str, seconds: u32) -> Result<(), String> {
    let range = |range: std::ops::RangeInclusive<u32>| {
        if range.contains(&seconds) {
            Ok(seconds)
        } else {
            Err(format!("{seconds} is not {} to {}", range.start(), range.end()))
        }
    };
    let time = |seconds: u32| Duration::from_secs(seconds.into());
    match name {
        "at_early_margin" => limits.early_margin = time(range(1..=LONGEST)?),
        "at_extra" => limits.early_extra = range(1..=LONGEST)?,
        "at_history" => limits.history = time(range(8..=LONGEST)?),
        // Without estimates it is unknown how long to wait.
        "at_max" => limits.max = range(limits.min.max(1)..=LONGEST)?,
        "timeout" => limits.base = range(1..=LONGEST)?,
        _ => limits.min = range(0..=limits.max)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_bounded() {
        let mut limits = Limits::default();
        for (name, value) in [
            ("at_early_margin", 7),
            ("at_extra", 20),
            ("at_history", 90),
            ("at_max", 300),
            ("timeout", 40),
        ] {
            assert_eq!(put(&mut limits, name, value), Ok(()), "{name}");
            assert_eq!(get(&limits, name), u64::from(value));
        }
        assert_eq!(put(&mut limits, "at_min", 300), Ok(()));
        assert!(put(&mut limits, "at_min", 301).is_err());
        assert!(put(&mut limits, "at_max", 299).is_err());
        assert!(put(&mut limits, "at_extra", 0).is_err());
        assert_eq!(
            put(&mut limits, "at_max", LONGEST + 1).unwrap_err(),
            "86401 is not 300 to 86400"
        );
    }
}
