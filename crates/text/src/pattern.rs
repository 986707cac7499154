//! Patterns for names, as a shell has them for files.

/// Returns whether the parts of a name are selected by a pattern such as `obdfilter.*.stats`: `*` stands for
/// any characters of one part, `?` for one of them, and `[0-3a]` for one of a set. Slashes count as
/// dots, and parts may contain dots.
pub fn selects(pattern: &str, parts: &[impl AsRef<str>]) -> bool {
    selects_from(pattern.replace('/', ".").as_bytes(), parts)
}

fn selects_from(pattern: &[u8], parts: &[impl AsRef<str>]) -> bool {
    let Some((part, rest)) = parts.split_first() else { return false };
    let ends = (0..=pattern.len()).filter(|&end| pattern.get(end).is_none_or(|byte| *byte == b'.'));
    ends.into_iter().any(|end| {
        let (now, later) = pattern.split_at(end);
        is_like(now, part.as_ref().as_bytes())
            && match later.split_first() {
                Some((_, later)) => selects_from(later, rest),
                None => rest.is_empty(),
            }
    })
}

/// Returns whether a text is like a pattern with `*`, `?` and sets such as `[0-3a]` or `[!a]`. The time is at
/// most the product of their lengths.
pub fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    // Where to continue after the last `*`, which then takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    let (mut at, mut done) = (0, 0);
    while done < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, done));
        } else if let Some(len) = matches_one(&pattern[at..], text[done]) {
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
        let fits = |pattern: &str| is_like(pattern.as_bytes(), device.as_bytes());
        for pattern in ["*", device, "lv-OST001f-*", "*OST001f*", "lv-OST00??-osc-*", "*-osc-*0"] {
            assert!(fits(pattern), "{pattern}");
        }
        for pattern in ["lv-OST001[a-f]-*", "lv-OST001[0f]*", "lv-OST001[!0-9]*", "lv-*-*-**"] {
            assert!(fits(pattern), "{pattern}");
        }
        for pattern in ["", "lv", "lv-OST001?", "lv-OST001[0-9]*", "lv-OST001[^f]*", "*[", "*osc"] {
            assert!(!fits(pattern), "{pattern}");
        }
        assert!(is_like(b"", b"") && is_like(b"**", b"") && !is_like(b"?", b""));
    }

    #[test]
    fn a_star_stands_for_one_part_of_a_name() {
        let stats = ["obdfilter", "lv-OST0000", "stats"];
        let client = ["obdfilter", "lv-OST0000", "exports", "10.0.0.1@tcp", "stats"];
        for (pattern, selects_stats, selects_client) in [
            ("obdfilter.lv-OST0000.stats", true, false),
            ("obdfilter/lv-OST0000/stats", true, false),
            ("obdfilter.*.stats", true, false),
            ("*.*.*", true, false),
            ("obdfilter.lv-OST000?.st*s", true, false),
            ("obdfilter.lv-OST000[0-3].stats", true, false),
            ("obdfilter.*.exports.*.stats", false, true),
            ("obdfilter.*.exports.10.0.0.1@tcp.stats", false, true),
            ("obdfilter.*.exports.10.*@tcp.stats", false, true),
            ("obdfilter.*", false, false),
            ("obdfilter.lv-OST0000", false, false),
            ("stats", false, false),
            ("", false, false),
        ] {
            assert_eq!(selects(pattern, &stats), selects_stats, "{pattern}");
            assert_eq!(selects(pattern, &client), selects_client, "{pattern}");
        }
    }

    #[test]
    fn patterns_with_many_stars_end_soon() {
        let long = ["a".repeat(10_000)];
        assert!(!selects(&("*a".repeat(1000) + "b"), &long));
        assert!(selects(&"*a".repeat(1000), &long));
    }
}
