//! Number lists, address patterns, and the expansion of brackets in text.
//! Spec: lnet-behaviour §13.1.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use fulmar_lnet_wire::{Net, Nid, NidRange, NumberList, RangeError};

use super::diagnostic::{Diagnostic, Source, Text};

/// The most numbers or words of a pair of brackets.
const EXPANSION_MAX: usize = 65_536;

/// Returns a diagnostic at the place in `text` of an error in a list.
fn misread(text: Text<'_>, error: &RangeError) -> Diagnostic {
    let start = text.s.char_indices().nth(error.column.saturating_sub(1));
    let place = text.from(start.map_or(text.s.len(), |(start, _)| start));
    mistaken(place, error)
}

/// Returns a diagnostic with the error as its message and the correction as its help.
fn mistaken(place: Text<'_>, error: &RangeError) -> Diagnostic {
    let text = error.mistake.to_string();
    match text.rsplit_once(": ") {
        Some((wrong, help)) => place.error(wrong).with_help(help),
        None => place.error(text),
    }
}

/// Parses `[0,1]`, `[0-3]`, `[0-6/2]`, with or without the brackets.
pub(crate) fn number_list(text: Text<'_>, max: u32) -> Result<Vec<u32>, Diagnostic> {
    let items = unbracketed(text);
    let list = NumberList::parse(&format!("[{}]", items.s), max).map_err(|mut error| {
        // The added bracket is not in the administrator's text.
        error.column = error.column.saturating_sub(1).max(1);
        misread(items, &error)
    })?;
    Ok(list.values(EXPANSION_MAX).expect("the content of brackets can be listed"))
}

fn unbracketed(text: Text<'_>) -> Text<'_> {
    let text = text.trim();
    if text.s.starts_with('[') && text.s.ends_with(']') && text.s.len() >= 2 {
        text.range(1..text.s.len() - 1)
    } else {
        text
    }
}

/// Addresses such as `192.168.[1-3].*` or `10.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern {
    text: String,
    /// The NIDs on `tcp` with these addresses, which have the same notation.
    range: NidRange,
}

impl AddressPattern {
    /// Returns whether `address` matches.
    pub fn matches(&self, address: IpAddr) -> bool {
        self.range.matches(Nid::of_ip(Net::TCP, address))
    }

    pub(crate) fn parse(text: Text<'_>) -> Result<Self, Diagnostic> {
        let range = format!("{}@tcp", text.s).parse().map_err(|error| misread(text, &error))?;
        Ok(Self { text: text.s.to_owned(), range })
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

/// Expands brackets in text, the leftmost first: `10.0.0.[1-2]@tcp[0,3]` becomes four words.
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
            let message = format!("\"{}\" expands to more than {EXPANSION_MAX} words", text.s);
            return Err(text.error(message).with_help("use several smaller patterns"));
        }
        pending.extend(words.into_iter().rev());
    }
    Ok(done)
}

fn items(text: Text<'_>, item: &str) -> Result<Vec<String>, Diagnostic> {
    if !item.contains('-') {
        return Ok(vec![item.to_owned()]);
    }
    // After the first expansion an item has no position: errors point at the whole word.
    let list = NumberList::parse(&format!("[{item}]"), u32::MAX)
        .map_err(|error| mistaken(text, &error))?;
    if !list.ends_on_steps() {
        let error = text.error(format!("the range {item} does not end on a step"));
        return Err(error.with_help("make the end the start plus a multiple of the step"));
    }
    let numbers = list.values(EXPANSION_MAX + 1).expect("the content of brackets can be listed");
    Ok(numbers.iter().map(u32::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_their_addresses() {
        let pattern: AddressPattern = "192.168.[1-3,7].[0-254/2]".parse().unwrap();
        for (address, matches) in [
            ("192.168.1.0", true),
            ("192.168.7.254", true),
            ("192.168.4.2", false),
            ("192.168.2.3", false),
            ("10.168.1.0", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(pattern.matches(address), matches, "{address}");
        }
        let matches = |pattern: &str, address: &str| {
            pattern.parse::<AddressPattern>().unwrap().matches(address.parse().unwrap())
        };
        assert!(matches("*.*.*.*", "127.0.0.1") && !matches("*.*.*.*", "::1"));
        assert!(matches("10.0.0.0/8", "10.1.2.3") && matches("fd00::/64", "fd00::7"));
        for bad in
            ["10.0.0", "10.0.0.256", "10.0.0.[5-1]", "10.0.0.x", "10..0.1", "1.1.1.1@tcp", ""]
        {
            assert!(bad.parse::<AddressPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_point_at_their_place() {
        let pattern = "10.0.[1-300].1".parse::<AddressPattern>().unwrap_err();
        assert_eq!((pattern.at.column, pattern.message.contains("300 is too large")), (9, true));
        for (list, column) in [("[0,x]", 4), ("0,x", 3), ("0,99", 3), ("[3-1]", 2)] {
            let error = number_list(Source::new("CPT", list).whole(), 9).unwrap_err();
            assert_eq!(error.at.column, column, "{list}: {error}");
        }
        assert_eq!(number_list(Source::new("CPT", "[0, 2-4]").whole(), 9).unwrap(), [0, 2, 3, 4]);
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
