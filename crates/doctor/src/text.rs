//! Numbers and words for people.

use std::time::Duration;

use crate::far::RATE_MAX;

/// Returns bits per second in the unit that suits them.
pub fn rate(bits: f64) -> String {
    match bits {
        ..1e3 => format!("{bits:.0} bit/s"),
        ..1e6 => format!("{:.1} kbit/s", bits / 1e3),
        ..1e9 => format!("{:.1} Mbit/s", bits / 1e6),
        _ => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

/// Returns microseconds with three digits that mean something, at most.
pub fn micros(micros: f64) -> String {
    match micros.abs() {
        ..9.95 => format!("{micros:.1} us"),
        ..999.5 => format!("{micros:.0} us"),
        ..9_995.0 => format!("{:.2} ms", micros / 1e3),
        ..99_950.0 => format!("{:.1} ms", micros / 1e3),
        ..999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// Returns a duration with three digits that mean something, at most.
pub fn duration(duration: Duration) -> String {
    micros(duration.as_secs_f64() * 1e6)
}

/// Returns a number of bytes in the binary unit that suits it.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Returns a share in percent, with more digits the smaller it is.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        ..0.0005 => "<0.001 %".to_owned(),
        ..0.095 => format!("{percent:.3} %"),
        ..9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Reads a rate of datagrams, from 1 kbit/s to what a far end takes: `1Gbit`, `200M`, `64000`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match fulmar_base::quantity::rate(text)? {
        bits @ 1_000..=RATE_MAX => Ok(bits),
        _ => {
            let most = RATE_MAX / 1_000_000_000;
            Err(format!("{text}: a rate is between 1 kbit/s and {most} Gbit/s"))
        }
    }
}

/// Returns a text as one line, without what a terminal would take for a command or for another
/// order of the letters.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_command(c) { '?' } else { c }).collect()
}

/// Returns lines that are each [`printable`].
pub fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if is_command(c) && c != '\n' { '?' } else { c }).collect()
}

/// Whether a character is none to be seen: a control character, another end of a line, a mark of
/// the direction of writing, or one without any width.
fn is_command(c: char) -> bool {
    let unseen = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
    c.is_control() || unseen || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// Breaks a text into lines of at most `width` characters, between words where it can.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_enough_to_read() {
        assert_eq!(
            [940e6, 9.414e9, 12.0, 64e3].map(rate),
            ["940.0 Mbit/s", "9.41 Gbit/s", "12 bit/s", "64.0 kbit/s"]
        );
        assert_eq!([8.26, 50_512.0, -1200.0].map(micros), ["8.3 us", "50.5 ms", "-1.20 ms"]);
        assert_eq!([999, 4 << 20, 1536].map(bytes), ["999 B", "4 MiB", "1.5 KiB"]);
        let shares = [0.0, 1e-7, 0.0004, 0.012, 0.5].map(percent);
        assert_eq!(shares, ["0 %", "<0.001 %", "0.040 %", "1.2 %", "50 %"]);
    }

    #[test]
    fn a_rate_is_one_that_a_far_end_takes() {
        assert_eq!(parse_rate("10Gbps"), Ok(10_000_000_000));
        assert_eq!((parse_rate("1k"), parse_rate("400G")), (Ok(1_000), Ok(RATE_MAX)));
        for text in ["", "fast", "1", "999", "400.1G", "9999G"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_far_end_writes_does_not_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\tc"), "a?[2Jb?c");
        assert_eq!(printable("a\nERROR\r\u{202e}b\u{2028}\u{9b}c\u{200b}"), "a?ERROR??b??c?");
        assert_eq!(printable_lines("a\n\x1bb\n"), "a\n?b\n");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
    }
}
