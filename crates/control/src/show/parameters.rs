//! Parameters as `lctl get_param` and `list_param` print them.

use serde::{Deserialize, Serialize};

/// A parameter with its value, as the text of the file that a kernel node has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The parts of its name, such as `obdfilter`, `lv-OST0000`, `stats`. A part may contain dots.
    pub name: Vec<String>,
    /// The value, with a line feed at its end.
    pub value: String,
}

impl Parameter {
    /// Returns whether its name is selected by a pattern such as `obdfilter.*.stats`: `*` stands for any
    /// characters of one part, `?` for one of them. Slashes count as dots.
    pub fn is_selected(&self, pattern: &str) -> bool {
        selects(pattern.replace('/', ".").as_bytes(), &self.name)
    }

    /// Returns its name with dots.
    pub fn full_name(&self) -> String {
        self.name.join(".")
    }
}

/// Returns the output of `get_param`: a value of several lines begins behind its name.
pub fn parameter(parameter: &Parameter) -> String {
    let Parameter { value, .. } = parameter;
    let is_long = value.trim_end_matches('\n').contains('\n');
    let separator = if is_long { "=\n" } else { "=" };
    format!("{}{separator}{value}", parameter.full_name())
}

fn selects(pattern: &[u8], parts: &[String]) -> bool {
    let Some((part, rest)) = parts.split_first() else { return false };
    let ends = (0..=pattern.len()).filter(|&end| pattern.get(end).is_none_or(|byte| *byte == b'.'));
    ends.into_iter().any(|end| {
        let (now, later) = pattern.split_at(end);
        is_like(now, part.as_bytes())
            && match later.split_first() {
                Some((_, later)) => selects(later, rest),
                None => rest.is_empty(),
            }
    })
}

/// Returns whether a text is like a pattern. The time is at most the product of their lengths.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last star, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, end)) = star else { return false };
                star = Some((at, end + 1));
                (p, t) = (at + 1, end + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str], value: &str) -> Parameter {
        let name = parts.iter().map(|part| (*part).to_owned()).collect();
        Parameter { name, value: value.to_owned() }
    }

    #[test]
    fn a_star_stands_for_one_part_of_a_name() {
        let stats = of(&["obdfilter", "lv-OST0000", "stats"], "");
        let client = of(&["obdfilter", "lv-OST0000", "exports", "10.0.0.1@tcp", "stats"], "");
        for (pattern, selects_stats, selects_client) in [
            ("obdfilter.lv-OST0000.stats", true, false),
            ("obdfilter/lv-OST0000/stats", true, false),
            ("obdfilter.*.stats", true, false),
            ("*.*.*", true, false),
            ("obdfilter.lv-OST000?.st*s", true, false),
            ("obdfilter.*.exports.*.stats", false, true),
            ("obdfilter.*.exports.10.0.0.1@tcp.stats", false, true),
            ("obdfilter.*.exports.10.*@tcp.stats", false, true),
            ("obdfilter.*", false, false),
            ("obdfilter.lv-OST0000", false, false),
            ("stats", false, false),
            ("", false, false),
        ] {
            assert_eq!(stats.is_selected(pattern), selects_stats, "{pattern}");
            assert_eq!(client.is_selected(pattern), selects_client, "{pattern}");
        }
    }

    #[test]
    fn patterns_with_many_stars_end_soon() {
        let long = of(&["a".repeat(10_000).as_str()], "");
        assert!(!long.is_selected(&("*a".repeat(1000) + "b")));
        assert!(long.is_selected(&"*a".repeat(1000)));
    }

    #[test]
    fn a_value_of_several_lines_begins_behind_its_name() {
        assert_eq!(parameter(&of(&["a", "b"], "1\n")), "a.b=1\n");
        assert_eq!(parameter(&of(&["a", "b"], "1\n2\n")), "a.b=\n1\n2\n");
    }
}
