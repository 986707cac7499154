//! Options as GNU getopt parses them: also between operands, and with abbreviated long names.

/// An option of a subcommand.
#[derive(Debug)]
pub(super) struct Opt {
    pub(super) short: Option<char>,
    pub(super) long: &'static str,
    /// Name of its value, if it has one.
    pub(super) value: Option<&'static str>,
    pub(super) help: &'static str,
}

impl Opt {
    pub(super) const fn flag(short: char, long: &'static str, help: &'static str) -> Self {
        Self { short: Some(short), long, value: None, help }
    }

    pub(super) const fn valued(
        short: char,
        long: &'static str,
        value: &'static str,
        help: &'static str,
    ) -> Self {
        Self { short: Some(short), long, value: Some(value), help }
    }
}

/// The parsed arguments of a subcommand.
#[derive(Debug, Default)]
pub(super) struct Line {
    options: Vec<(&'static str, Option<String>)>,
    pub(super) operands: Vec<String>,
}

impl Line {
    /// Separates options from operands.
    ///
    /// # Errors
    /// Which option is invalid.
    pub(super) fn parse(table: &'static [Opt], words: &[String]) -> Result<Self, String> {
        let mut line = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().cloned();
            if word == "--" {
                line.operands.extend(words.cloned());
                break;
            } else if let Some(text) = word.strip_prefix("--") {
                line.long(table, text, next)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                line.short(table, letters, &mut next)?;
            } else {
                line.operands.push(word.clone());
            }
        }
        Ok(line)
    }

    fn long(
        &mut self,
        table: &'static [Opt],
        text: &str,
        mut next: impl FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let (name, given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let opt = find(table, name)?;
        let value = match (opt.value, given) {
            (None, None) => None,
            (None, Some(_)) => return Err(format!("--{} takes no value", opt.long)),
            (Some(_), Some(value)) => Some(value),
            (Some(what), None) => {
                Some(next().ok_or_else(|| format!("--{} needs a value: {what}", opt.long))?)
            }
        };
        self.options.push((opt.long, value));
        Ok(())
    }

    /// Parses letters after one dash; the rest of them is the value of the first option that takes
    /// one.
    fn short(
        &mut self,
        table: &'static [Opt],
        letters: &str,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let opt = table.iter().find(|opt| opt.short == Some(letter));
            let opt = opt.ok_or_else(|| format!("unknown option -{letter}"))?;
            let Some(what) = opt.value else {
                self.options.push((opt.long, None));
                continue;
            };
            let value = match rest.as_str() {
                "" => next().ok_or_else(|| format!("-{letter} needs a value: {what}"))?,
                value => value.to_owned(),
            };
            self.options.push((opt.long, Some(value)));
            break;
        }
        Ok(())
    }

    /// Returns whether an option was given.
    pub(super) fn has(&self, long: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == long)
    }

    /// Returns the value of an option: the last, if it was given more than once.
    pub(super) fn value(&self, long: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| *name == long)?.1.as_deref()
    }

    /// Returns the value of an option as a number, or `default` if the option was not given.
    /// `None` if it is not a number.
    pub(super) fn number<T: std::str::FromStr>(&self, long: &str, default: T) -> Option<T> {
        match self.value(long) {
            Some(text) => text.parse().ok(),
            None => Some(default),
        }
    }

    /// Returns the last given of some options.
    pub(super) fn last_of(&self, longs: &[&str]) -> Option<(&'static str, &str)> {
        let given = self.options.iter().rev().find(|(name, _)| longs.contains(name))?;
        Some((given.0, given.1.as_deref().unwrap_or_default()))
    }

    /// Returns the only operand.
    pub(super) fn operand(&self) -> Option<&str> {
        match &self.operands[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the only operand, or `default` if there is none; `None` if there are more.
    pub(super) fn operand_or<'a>(&'a self, default: &'a str) -> Option<&'a str> {
        if self.operands.is_empty() { Some(default) } else { self.operand() }
    }
}

/// Finds an option by its name or an abbreviation.
fn find(table: &'static [Opt], name: &str) -> Result<&'static Opt, String> {
    if let Some(opt) = table.iter().find(|opt| opt.long == name) {
        return Ok(opt);
    }
    let meant: Vec<&Opt> = table.iter().filter(|opt| opt.long.starts_with(name)).collect();
    match meant[..] {
        [opt] => Ok(opt),
        [] => Err(format!("unknown option --{name}")),
        _ => {
            let names: Vec<String> = meant.iter().map(|opt| format!("--{}", opt.long)).collect();
            Err(format!("--{name} is ambiguous: {}", names.join(" or ")))
        }
    }
}

/// Parses a number as C does: decimal, hexadecimal after `0x`, octal after `0`.
pub(super) fn c_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    let clean = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    let number = i64::from_str_radix(digits, radix).ok().filter(|_| clean)?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Opt] = &[
        Opt::valued('t', "timeout", "SECONDS", ""),
        Opt::flag('f', "force", ""),
        Opt::valued('c', "count", "N", ""),
        Opt::valued('d', "concurrency", "N", ""),
        Opt::flag('a', "all", ""),
    ];

    fn parse(text: &str) -> Result<Line, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Line::parse(TABLE, &words)
    }

    #[test]
    fn options_may_be_abbreviated_and_between_operands() {
        for text in [
            "one --timeout 5 --force two",
            "--timeo=5 one two -f",
            "-ft5 one two",
            "one -t 5 -af two",
            "--timeout 9 -t5 -f -- one two",
        ] {
            let line = parse(text).unwrap();
            assert_eq!((line.value("timeout"), line.has("force")), (Some("5"), true), "{text}");
            assert_eq!(line.operands, ["one", "two"], "{text}");
        }
        let line = parse("- -- --force").unwrap();
        assert_eq!(line.operands, ["-", "--force"]);
        assert_eq!(parse("--count -1").unwrap().number("count", 7), Some(-1));
        assert_eq!(parse("x").unwrap().number("count", 7), Some(7));
        assert_eq!(parse("-c x").unwrap().number("count", 7), None);
        let line = parse("--count 1 --timeout 2").unwrap();
        assert_eq!(line.last_of(&["count", "timeout"]), Some(("timeout", "2")));
    }

    #[test]
    fn invalid_options_are_reported() {
        for (text, expected) in [
            ("--co 1", "--co is ambiguous: --count or --concurrency"),
            ("--nonsense", "unknown option --nonsense"),
            ("-x", "unknown option -x"),
            ("--force=yes", "--force takes no value"),
            ("--timeout", "--timeout needs a value: SECONDS"),
            ("-ft", "-t needs a value: SECONDS"),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn numbers_are_parsed_as_in_c() {
        for (text, number) in [
            ("4096", Some(4096)),
            ("0x1000", Some(4096)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("-8", Some(-8)),
            ("", None),
            ("0x", None),
            ("--1", None),
            ("0x-1", None),
            ("09", None),
            ("1k", None),
        ] {
            assert_eq!(c_number(text), number, "{text}");
        }
    }
}
