//! Lists of numbers in configuration: `7`, `*`, `[1-9/2,12]`.
//!
//! Spec: lnet-behaviour §13.1.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::nid_text::NidError;

/// An error in a list or a pattern, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {mistake}")]
pub struct RangeError {
    /// The column in characters, from 1.
    pub column: usize,
    /// The error.
    pub mistake: Mistake,
}

/// An error in a list or a pattern, and the correction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Mistake {
    /// A network or an address is not valid, also in a single NID.
    #[error(transparent)]
    Nid(#[from] NidError),
    /// A number is expected here.
    #[error("{text:?} is not a number: write one from 0 to {max}")]
    Number { text: String, max: u32 },
    /// The number is too large.
    #[error("{text} is too large: use numbers from 0 to {max}")]
    TooLarge { text: String, max: u32 },
    /// The range is empty.
    #[error("the range {low}-{high} runs backwards: write {high}-{low}")]
    Backwards { low: u32, high: u32 },
    /// The stride is 0.
    #[error("a stride of 0 is not valid: write 1 or more after the \"/\"")]
    ZeroStride,
    /// A bracket is not balanced.
    #[error("brackets are not balanced: write a list as [1-9/2,12]")]
    Bracket,
    /// An IPv4 pattern has too many or too few parts.
    #[error("an IPv4 pattern has four parts and this one has {parts}: write it as 10.0.[1-5].*")]
    Parts { parts: usize },
    /// The text after the `/` is not the length of a prefix.
    #[error("{text:?} is not a prefix length: write a number from 0 to {max}")]
    Prefix { text: String, max: u8 },
    /// The text is empty.
    #[error("nothing is given here: write a NID or a pattern such as 10.0.0.[1-9]@tcp")]
    Empty,
    /// The list is too long.
    #[error("the list has more than {max} items: join them into ranges")]
    TooLong { max: usize },
}

/// The most items in one list.
pub(crate) const ITEMS_MAX: usize = 1024;

/// A part of a text, with its position.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) column: usize,
}

impl<'a> Piece<'a> {
    pub(crate) fn whole(text: &'a str) -> Self {
        Self { text, column: 1 }
    }

    pub(crate) fn error(self, mistake: impl Into<Mistake>) -> RangeError {
        RangeError { column: self.column, mistake: mistake.into() }
    }

    /// Returns the rest of the piece from byte `at`.
    pub(crate) fn skip(self, at: usize) -> Self {
        let (before, text) = self.text.split_at(at);
        Self { text, column: self.column + before.chars().count() }
    }

    fn trim(self) -> Self {
        let blanks = self.text.len() - self.text.trim_start().len();
        Self { text: self.text.trim(), ..self.skip(blanks) }
    }

    pub(crate) fn split_once(self, at: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(at)?;
        let rest = self.skip(self.text.len() - after.len());
        Some((Self { text: before, ..self }, rest))
    }

    /// Splits at every separator that is not inside brackets.
    pub(crate) fn split(self, separator: impl Fn(char) -> bool) -> Result<Vec<Self>, RangeError> {
        let mut pieces = Vec::new();
        let (mut start, mut bracket) = (0, None);
        for (at, c) in self.text.char_indices() {
            match c {
                '[' if bracket.is_none() => bracket = Some(at),
                ']' if bracket.is_some() => bracket = None,
                '[' | ']' => return Err(self.skip(at).error(Mistake::Bracket)),
                _ if bracket.is_none() && separator(c) => {
                    pieces.push(self.between(start, at));
                    start = at + c.len_utf8();
                }
                _ => {}
            }
            if pieces.len() >= ITEMS_MAX {
                return Err(self.skip(at).error(Mistake::TooLong { max: ITEMS_MAX }));
            }
        }
        if let Some(at) = bracket {
            return Err(self.skip(at).error(Mistake::Bracket));
        }
        pieces.push(self.skip(start));
        Ok(pieces)
    }

    fn between(self, start: usize, end: usize) -> Self {
        let piece = self.skip(start);
        Self { text: &piece.text[..end - start], ..piece }
    }

    pub(crate) fn number(self, max: u32) -> Result<u32, RangeError> {
        let text = || self.text.to_owned();
        if self.text.is_empty() || !self.text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.error(Mistake::Number { text: text(), max }));
        }
        match self.text.parse() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(self.error(Mistake::TooLarge { text: text(), max })),
        }
    }
}

/// The numbers low, low + stride, and so on up to high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRange {
    low: u32,
    high: u32,
    stride: u32,
}

impl NumberRange {
    fn parse(piece: Piece<'_>, max: u32) -> Result<Self, RangeError> {
        let Some((low, rest)) = piece.split_once('-') else {
            let number = piece.number(max)?;
            return Ok(Self { low: number, high: number, stride: 1 });
        };
        let (high, stride) = match rest.split_once('/') {
            Some((high, stride)) => (high, Some(stride)),
            None => (rest, None),
        };
        let (low, high) = (low.number(max)?, high.number(max)?);
        if low > high {
            return Err(piece.error(Mistake::Backwards { low, high }));
        }
        let Some(piece) = stride else { return Ok(Self { low, high, stride: 1 }) };
        match piece.number(u32::MAX)? {
            0 => Err(piece.error(Mistake::ZeroStride)),
            _ if low == high => Ok(Self { low, high, stride: 1 }),
            stride => Ok(Self { low, high, stride }),
        }
    }

    fn contains(self, number: u32) -> bool {
        (self.low..=self.high).contains(&number) && (number - self.low).is_multiple_of(self.stride)
    }

    fn values(self) -> impl Iterator<Item = u32> {
        (self.low..=self.high).step_by(self.stride as usize)
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { low, high, .. } if low == high => write!(f, "{low}"),
            Self { low, high, stride: 1 } => write!(f, "{low}-{high}"),
            Self { low, high, stride } => write!(f, "{low}-{high}/{stride}"),
        }
    }
}

/// A set of numbers: `7`, `[1-9/2,12]`, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberList {
    /// Empty for `*`.
    ranges: Vec<NumberRange>,
}

impl NumberList {
    /// Every number.
    pub const ALL: Self = Self { ranges: Vec::new() };

    /// Returns the list of one number.
    pub fn one(number: u32) -> Self {
        Self { ranges: vec![NumberRange { low: number, high: number, stride: 1 }] }
    }

    /// Parses a list whose numbers are at most `max`.
    pub fn parse(text: &str, max: u32) -> Result<Self, RangeError> {
        Self::parse_piece(Piece::whole(text), max)
    }

    pub(crate) fn parse_piece(piece: Piece<'_>, max: u32) -> Result<Self, RangeError> {
        if piece.text == "*" {
            return Ok(Self::ALL);
        }
        if !piece.text.starts_with('[') {
            return piece.number(max).map(Self::one);
        }
        let inner = piece.skip(1);
        let Some(text) = inner.text.strip_suffix(']') else {
            return Err(piece.error(Mistake::Bracket));
        };
        let items = Piece { text, ..inner }.split(|c| c == ',')?;
        let ranges = items.into_iter().map(Piece::trim).map(|item| match item.text {
            "*" => Ok(NumberRange { low: 0, high: max, stride: 1 }),
            _ => NumberRange::parse(item, max),
        });
        Ok(Self { ranges: ranges.collect::<Result<_, _>>()? })
    }

    /// Returns whether the list is `*`.
    pub fn is_all(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether the end of each range is one of its numbers; `[1-9/3]` is a counterexample.
    pub fn ends_on_steps(&self) -> bool {
        self.ranges.iter().all(|range| range.contains(range.high))
    }

    /// Returns whether `number` is in the list.
    pub fn contains(&self, number: u32) -> bool {
        self.is_all() || self.ranges.iter().any(|range| range.contains(number))
    }

    /// Returns the first and the last number if the list has all between them; `max`: the last of all.
    pub(crate) fn bounds(&self, max: u32) -> Option<(u32, u32)> {
        match self.ranges.as_slice() {
            [] => Some((0, max)),
            [range] if range.stride == 1 => Some((range.low, range.high)),
            _ => None,
        }
    }

    /// Returns the first `max` different numbers in the order of the text, or `None` for `*`.
    pub fn values(&self, max: usize) -> Option<Vec<u32>> {
        let mut seen = BTreeSet::new();
        let values = self.ranges.iter().flat_map(|range| range.values());
        let values = values.filter(|value| seen.insert(*value)).take(max).collect();
        (!self.is_all()).then_some(values)
    }
}

impl fmt::Display for NumberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ranges.as_slice() {
            [] => f.write_str("*"),
            [range] if range.low == range.high => write!(f, "{range}"),
            [first, rest @ ..] => {
                write!(f, "[{first}")?;
                rest.iter().try_for_each(|range| write!(f, ",{range}"))?;
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> NumberList {
        NumberList::parse(text, 255).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn lists_keep_the_order_of_the_text() {
        assert_eq!(list("[1-9/3,12,4,0]").values(100), Some(vec![1, 4, 7, 12, 0]));
        assert_eq!(list("[1-9/2]").values(2), Some(vec![1, 3]));
        assert_eq!(list("[1, 3-4 ]").values(9), Some(vec![1, 3, 4]));
        assert!(list("[1-9/2,4]").ends_on_steps() && !list("[1-9/3]").ends_on_steps());
        assert_eq!(list("*").values(2), None);
        assert!(list("[1-9/2]").contains(9) && !list("[1-9/2]").contains(8));
        assert!(list("*").contains(4711));
        assert_eq!(list("[3-4,*]").values(3), Some(vec![3, 4, 0]));
    }

    #[test]
    fn the_last_number_of_all_ends_a_range() {
        let all = NumberList::parse("[4294967290-4294967295/3]", u32::MAX).unwrap();
        assert_eq!(all.values(9), Some(vec![4_294_967_290, 4_294_967_293]));
    }

    #[test]
    fn lists_print_in_the_order_of_the_text() {
        for text in ["*", "7", "[1-9]", "[1-9/2,12]"] {
            assert_eq!(list(text).to_string(), text);
        }
        assert_eq!(list("[5]").to_string(), "5");
    }

    #[test]
    fn errors_name_the_column() {
        for (text, column) in [
            ("", 1),
            ("[]", 2),
            ("x", 1),
            ("[1,x]", 4),
            ("[1,2", 1),
            ("[1,,2]", 4),
            ("[1-256]", 4),
            ("[1,9-3]", 4),
            ("[1-9/0]", 6),
            ("[1-9/]", 6),
            ("[[1]]", 2),
            ("[1]2]", 3),
        ] {
            let error = NumberList::parse(text, 255).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
        }
    }
}
