//! Parameters that an administrator has set for the devices of every client, with
//! `lctl set_param -P`. Spec: ptlrpc-ldlm-mgs §31.4.

/// Returns whether a parameter such as `osc.lv-OST0001-osc-*.active=0` switches this device on or
/// off; `None` if it says nothing of that.
pub(crate) fn is_active(parameter: &str, kind: &str, device: &str) -> Option<bool> {
    let (name, value) = parameter.split_once('=')?;
    let pattern = name.strip_suffix(".active")?.strip_prefix(kind)?.strip_prefix('.')?;
    matches(pattern.as_bytes(), device.as_bytes()).then_some(value.trim() != "0")
}

/// Returns whether a name matches a pattern with `*`, `?` and sets such as `[0-3a]`, as in a shell.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where to continue after the last `*`, which then takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    let (mut at, mut done) = (0, 0);
    while done < name.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, done));
        } else if let Some(len) = matches_one(&pattern[at..], name[done]) {
            at += len;
            done += 1;
        } else if let Some((after, taken)) = star {
            star = Some((after, taken + 1));
            (at, done) = (after, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the first element of a pattern if it matches a byte.
fn matches_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (set, is_negated) = match set {
                [b'!' | b'^', rest @ ..] => (rest, 1),
                _ => (set, 0),
            };
            let len = set.iter().position(|end| *end == b']')?;
            let is_in_set = contains(&set[..len], byte) != (is_negated == 1);
            is_in_set.then_some(len + 2 + is_negated)
        }
        [first, ..] if *first == byte => Some(1),
        _ => None,
    }
}

fn contains(set: &[u8], byte: u8) -> bool {
    match set {
        [first, b'-', last, rest @ ..] => (*first..=*last).contains(&byte) || contains(rest, byte),
        [first, rest @ ..] => *first == byte || contains(rest, byte),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_selects_devices() {
        let device = "lv-OST001f-osc-ff110000077c3800";
        let fits = |pattern: &str| matches(pattern.as_bytes(), device.as_bytes());
        for pattern in ["*", device, "lv-OST001f-*", "*OST001f*", "lv-OST00??-osc-*", "*-osc-*0"] {
            assert!(fits(pattern), "{pattern}");
        }
        for pattern in ["lv-OST001[a-f]-*", "lv-OST001[0f]*", "lv-OST001[!0-9]*", "lv-*-*-**"] {
            assert!(fits(pattern), "{pattern}");
        }
        for pattern in ["", "lv", "lv-OST001?", "lv-OST001[0-9]*", "lv-OST001[^f]*", "*[", "*osc"] {
            assert!(!fits(pattern), "{pattern}");
        }
        assert!(matches(b"", b"") && matches(b"**", b"") && !matches(b"?", b""));
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
