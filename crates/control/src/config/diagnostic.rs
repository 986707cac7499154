//! Errors with their place in a file, and pieces of text that have a position.

use std::fmt;
use std::ops::Range;

/// A text to be parsed, and its name in errors.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of a file or of an option.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// Returns a named text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// Returns the whole text as a piece of itself.
    pub(crate) fn whole(&self) -> Text<'_> {
        Text { source: self, at: Position { line: 1, column: 1 }, s: &self.text }
    }
}

/// A line and a column in characters, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// An error with its place and the correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file or the option.
    pub source: String,
    /// The position in it.
    pub at: Position,
    /// The error.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The line of the error.
    pub line: String,
}

/// Writes `file:line:column: error: …`, the line with a mark under the place, and `help: …`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        write!(f, "{}:{line}:{column}: error: {}", self.source, self.message)?;
        if !self.line.trim().is_empty() {
            let gutter = line.to_string().len();
            // A tab moves the mark like the text.
            let margin: String = self
                .line
                .chars()
                .take(column - 1)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n {line} | {}\n {:gutter$} | {margin}^", self.line, "")?;
        }
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// A piece of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) source: &'a Source,
    pub(crate) at: Position,
    pub(crate) s: &'a str,
}

impl<'a> Text<'a> {
    pub(crate) fn error(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            source: self.source.name.clone(),
            at: self.at,
            message: message.into(),
            help: None,
            line: self.source.text.lines().nth(self.at.line - 1).unwrap_or("").to_owned(),
        }
    }

    /// Returns an error for a word that is not one of `known`, with the nearest of them.
    pub(crate) fn unknown(self, what: &str, known: &[&str]) -> Diagnostic {
        let message = format!("unknown {what} \"{}\"", self.s);
        self.error(message).with_help(nearest(self.s, known))
    }

    /// Returns the piece at `range`, in bytes.
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        let mut at = self.at;
        for c in self.s[..range.start].chars() {
            if c == '\n' {
                at = Position { line: at.line + 1, column: 1 };
            } else {
                at.column += 1;
            }
        }
        Self { at, s: &self.s[range], ..self }
    }

    pub(crate) fn from(self, start: usize) -> Self {
        self.range(start..self.s.len())
    }

    pub(crate) fn trim(self) -> Self {
        let start = self.s.len() - self.s.trim_start().len();
        self.range(start..start + self.s.trim().len())
    }

    pub(crate) fn is_empty(self) -> bool {
        self.s.is_empty()
    }

    /// Splits at every character that `separates` accepts.
    pub(crate) fn split(self, separates: impl Fn(char) -> bool) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for (index, c) in self.s.char_indices().filter(|(_, c)| separates(*c)) {
            pieces.push(self.range(start..index));
            start = index + c.len_utf8();
        }
        pieces.push(self.from(start));
        pieces
    }

    /// Splits into words at blanks.
    pub(crate) fn words(self) -> Vec<Self> {
        self.split(char::is_whitespace).into_iter().filter(|word| !word.is_empty()).collect()
    }

    /// Parses the whole text, such as a NID.
    pub(crate) fn parse<T>(self) -> Result<T, Diagnostic>
    where
        T: std::str::FromStr<Err: fmt::Display>,
    {
        self.s.parse().map_err(|error: T::Err| self.error(error.to_string()))
    }

    /// Parses a number between `min` and `max`.
    pub(crate) fn number(self, what: &str, min: i64, max: i64) -> Result<i64, Diagnostic> {
        let digits = self.s.strip_prefix("0x").map(|hex| i64::from_str_radix(hex, 16));
        let value = digits.unwrap_or_else(|| self.s.parse()).map_err(|_| {
            self.error(format!("\"{}\" is not a number for {what}", self.s))
                .with_help(range_help(min, max))
        })?;
        if (min..=max).contains(&value) {
            return Ok(value);
        }
        let message = format!("{value} is out of range for {what}");
        Err(self.error(message).with_help(range_help(min, max)))
    }

    pub(crate) fn u32(self, what: &str) -> Result<u32, Diagnostic> {
        self.number(what, 0, u32::MAX.into()).map(|n| n as u32)
    }
}

impl Diagnostic {
    /// Returns the error and the correction without the place, for an argument of a command.
    pub fn brief(&self) -> String {
        let help = self.help.as_ref().map(|help| format!(": {help}"));
        format!("{}{}", self.message, help.unwrap_or_default())
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

fn range_help(min: i64, max: i64) -> String {
    match max {
        1 if min == 0 => "write 0 or 1".into(),
        max if max >= u32::MAX.into() => format!("write a whole number, {min} or greater"),
        _ => format!("write a whole number from {min} to {max}"),
    }
}

/// Returns the help for a word that should be one of `known`.
pub fn nearest(word: &str, known: &[&str]) -> String {
    let distance = |name: &&&str| strsim::damerau_levenshtein(&word.to_lowercase(), name);
    match known.iter().min_by_key(distance) {
        Some(name) if distance(&name) <= 1 + word.len() / 3 => format!("did you mean \"{name}\"?"),
        _ => format!("write one of: {}", known.join(", ")),
    }
}
