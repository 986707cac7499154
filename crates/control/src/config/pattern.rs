//! Number lists, address patterns, and the expansion of brackets in text.
//! Spec: lnet-behaviour §13.1.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use super::diagnostic::{Diagnostic, Source, Text};

/// How many numbers or words a pair of brackets may stand for.
const EXPANSION_MAX: usize = 65_536;

/// The numbers LO, LO + STRIDE, … up to HI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    low: u32,
    high: u32,
    stride: u32,
}

impl Span {
    /// Reads `N`, `A-B` or `A-B/S`.
    fn parse(text: Text<'_>, max: u32) -> Result<Self, Diagnostic> {
        let number = |text: Text<'_>, min: i64| {
            text.trim().number("a list", min, max.into()).map(|n| n as u32)
        };
        let mut halves = text.split(|c| c == '-').into_iter();
        let (Some(first), second, None) = (halves.next(), halves.next(), halves.next()) else {
            return Err(text.error(format!("\"{}\" is no range", text.s)).with_help("write A-B"));
        };
        let low = number(first, 0)?;
        let Some(second) = second else { return Ok(Self { low, high: low, stride: 1 }) };
        let parts = second.split(|c| c == '/');
        let high = number(parts[0], 0)?;
        let stride = parts.get(1).map_or(Ok(1), |stride| number(*stride, 1))?;
        if high < low {
            let error = text.error(format!("the range {} ends before it begins", text.s));
            return Err(error.with_help(format!("write {high}-{low}")));
        }
        Ok(Self { low, high, stride })
    }

    fn contains(self, n: u32) -> bool {
        (self.low..=self.high).contains(&n) && (n - self.low).is_multiple_of(self.stride)
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (self.low..=self.high).step_by(self.stride as usize)
    }
}

/// Reads `[0,1]`, `[0-3]`, `[0-6/2]`, with or without the brackets.
pub(crate) fn number_list(text: Text<'_>, max: u32) -> Result<Vec<u32>, Diagnostic> {
    let mut numbers = Vec::new();
    for item in unbracketed(text).split(|c| c == ',') {
        numbers.extend(Span::parse(item.trim(), max)?.numbers().take(EXPANSION_MAX));
    }
    Ok(numbers)
}

fn unbracketed(text: Text<'_>) -> Text<'_> {
    let text = text.trim();
    match text.s.starts_with('[') && text.s.ends_with(']') && text.s.len() >= 2 {
        true => text.range(1..text.s.len() - 1),
        false => text,
    }
}

/// IPv4 addresses such as `192.168.[1-3].*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern {
    text: String,
    parts: [Vec<Span>; 4],
}

impl AddressPattern {
    /// Returns whether `address` is one of them.
    pub fn matches(&self, address: Ipv4Addr) -> bool {
        let parts = self.parts.iter().zip(address.octets());
        parts.into_iter().all(|(spans, n)| spans.iter().any(|span| span.contains(n.into())))
    }

    pub(crate) fn parse(text: Text<'_>) -> Result<Self, Diagnostic> {
        let mut depth = 0_i32;
        let dots: Vec<usize> = text
            .s
            .char_indices()
            .filter(|(_, c)| {
                depth += i32::from(*c == '[') - i32::from(*c == ']');
                depth == 0 && *c == '.'
            })
            .map(|(index, _)| index)
            .collect();
        let &[a, b, c] = dots.as_slice() else {
            let error = text.error(format!("\"{}\" is no address pattern", text.s));
            return Err(error.with_help("write four parts, as in 192.168.[1-3].*"));
        };
        let parts = [0..a, a + 1..b, b + 1..c, c + 1..text.s.len()];
        let mut spans = [const { Vec::new() }; 4];
        for (range, spans) in parts.into_iter().zip(&mut spans) {
            let part = text.range(range);
            *spans = match part.s {
                "*" => vec![Span { low: 0, high: 255, stride: 1 }],
                _ => {
                    let items = unbracketed(part).split(|c| c == ',');
                    items
                        .into_iter()
                        .map(|item| Span::parse(item, 255))
                        .collect::<Result<_, _>>()?
                }
            };
        }
        Ok(Self { text: text.s.to_owned(), parts: spans })
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for AddressPattern {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        Self::parse(Source::new("address pattern", text).whole())
    }
}

/// Expands brackets in text, the leftmost first: `10.0.0.[1-2]@tcp[0,3]` are four words.
///
/// Items are words, `A-B` or `A-B/S`, where B − A must be a multiple of S.
pub(crate) fn expand(text: Text<'_>) -> Result<Vec<String>, Diagnostic> {
    let mut done = Vec::new();
    let mut pending = vec![text.s.to_owned()];
    while let Some(word) = pending.pop() {
        let Some(open) = word.find('[') else {
            done.push(word);
            continue;
        };
        let Some(len) = word[open..].find(']') else {
            let error = text.error(format!("\"[\" is never closed in \"{}\"", text.s));
            return Err(error.with_help("add the \"]\""));
        };
        let (head, tail) = (&word[..open], &word[open + len + 1..]);
        let mut words = Vec::new();
        for item in word[open + 1..open + len].split(',') {
            words.extend(items(text, item)?.into_iter().map(|item| format!("{head}{item}{tail}")));
        }
        if done.len() + pending.len() + words.len() > EXPANSION_MAX {
            let message = format!("\"{}\" stands for more than {EXPANSION_MAX} words", text.s);
            return Err(text.error(message).with_help("write it as several narrower ones"));
        }
        pending.extend(words.into_iter().rev());
    }
    Ok(done)
}

fn items(text: Text<'_>, item: &str) -> Result<Vec<String>, Diagnostic> {
    if !item.contains('-') {
        return Ok(vec![item.to_owned()]);
    }
    // After the first expansion an item has no place of its own: the whole word is pointed at.
    let span = Span::parse(Text { s: item, ..text }, u32::MAX)
        .map_err(|error| Diagnostic { at: text.at, ..error })?;
    if !(span.high - span.low).is_multiple_of(span.stride) {
        let error = text.error(format!("the range {item} does not end on a step"));
        return Err(error.with_help("make the end the start plus a multiple of the step"));
    }
    Ok(span.numbers().take(EXPANSION_MAX + 1).map(|n| n.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        let pattern: AddressPattern = "192.168.[1-3,7].[0-254/2]".parse().unwrap();
        for (address, matches) in [
            ("192.168.1.0", true),
            ("192.168.7.254", true),
            ("192.168.4.2", false),
            ("192.168.2.3", false),
            ("10.168.1.0", false),
        ] {
            assert_eq!(pattern.matches(address.parse().unwrap()), matches, "{address}");
        }
        assert!("*.*.*.*".parse::<AddressPattern>().unwrap().matches(Ipv4Addr::LOCALHOST));
        for bad in ["10.0.0", "10.0.0.256", "10.0.0.[5-1]", "10.0.0.x", "10..0.1", ""] {
            assert!(bad.parse::<AddressPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn brackets_expand_leftmost_first() {
        let expanded = |s: &str| expand(Source::new("routes", s).whole());
        assert_eq!(
            expanded("10.0.[1-2].[3,5]@tcp").unwrap(),
            ["10.0.1.3@tcp", "10.0.1.5@tcp", "10.0.2.3@tcp", "10.0.2.5@tcp"]
        );
        assert_eq!(expanded("tcp[1-5/2]").unwrap(), ["tcp1", "tcp3", "tcp5"]);
        assert_eq!(expanded("[4-4]").unwrap(), ["4"]);
        assert!(expanded("tcp[1-4/2]").unwrap_err().message.contains("does not end on a step"));
        assert!(expanded("tcp[1-4").is_err());
        assert!(expanded("[0-999][0-999]").unwrap_err().message.contains("more than 65536"));
    }
}
