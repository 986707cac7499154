//! The words of `lfs find`.

use std::path::PathBuf;

use super::super::ids;
use super::conditions::{Condition, Number, Sign, Test, Time};

/// What is wanted.
#[derive(Debug)]
pub(super) struct FindRequest {
    pub(super) paths: Vec<PathBuf>,
    pub(super) conditions: Vec<Condition>,
    pub(super) depth: Option<usize>,
    pub(super) nul: bool,
}

impl FindRequest {
    pub(super) fn parse(words: Vec<String>) -> Result<Self, String> {
        let mut wanted = Self { paths: vec![], conditions: vec![], depth: None, nul: false };
        let mut words = words.into_iter().peekable();
        while let Some(path) = words.next_if(|word| !word.starts_with('-') && word != "!") {
            wanted.paths.push(path.into());
        }
        if wanted.paths.is_empty() {
            return Err("where? Paths come before conditions".to_owned());
        }
        let mut is_not = false;
        while let Some(word) = words.next() {
            if word == "!" {
                is_not = !is_not;
                continue;
            }
            let (name, given) = match word.split_once('=') {
                Some((name, value)) if word.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value =
                || given.clone().or_else(|| words.next()).ok_or(format!("{word} needs a value"));
            // Both forms of a name are taken, as by Lustre's lfs.
            match name.trim_start_matches('-') {
                "print0" | "0" => wanted.nul = true,
                "print" | "P" => {}
                "maxdepth" | "D" => wanted.depth = Some(whole(&value()?)?),
                _ if !name.starts_with('-') => return Err(format!("{word}: paths come first")),
                name => {
                    let test = test(name, &mut value)?;
                    wanted.conditions.push(Condition { is_not, test });
                }
            }
            is_not = false;
        }
        if is_not { Err("a condition comes behind !".to_owned()) } else { Ok(wanted) }
    }
}

fn test(name: &str, value: &mut dyn FnMut() -> Result<String, String>) -> Result<Test, String> {
    Ok(match name {
        "name" | "n" => Test::Name(value()?),
        "type" | "t" => Test::Type(kind(&value()?)?),
        "size" | "s" => Test::Size(bytes(&value()?)?),
        "atime" | "A" => Test::Age(Time::Accessed, age(&value()?)?),
        "mtime" | "M" => Test::Age(Time::Modified, age(&value()?)?),
        "ctime" | "C" => Test::Age(Time::Changed, age(&value()?)?),
        "uid" => Test::Uid(number(&value()?)?),
        "gid" => Test::Gid(number(&value()?)?),
        "user" | "u" => Test::Uid(id(ids::USERS, &value()?)?),
        "group" | "g" => Test::Gid(id(ids::GROUPS, &value()?)?),
        "ost" | "obd" | "O" => {
            let all = value()?;
            Test::Ost(all.split(',').map(ost).collect::<Result<_, _>>()?)
        }
        "stripe-count" | "c" => Test::StripeCount(number(&value()?)?),
        "stripe-size" | "S" => Test::StripeSize(bytes(&value()?)?),
        _ => return Err(format!("-{name} is not a condition: see --help")),
    })
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

/// Returns a sign, and what is behind it.
fn sign(text: &str) -> (Sign, &str) {
    match text.split_at_checked(1) {
        Some(("+", rest)) => (Sign::More, rest),
        Some(("-", rest)) => (Sign::Less, rest),
        _ => (Sign::Equal, text),
    }
}

fn number(text: &str) -> Result<Number, String> {
    let (sign, rest) = sign(text);
    Ok(Number { sign, value: whole(rest)?, unit: 1 })
}

/// Returns a number of bytes. Without a sign, sizes count in the unit.
fn bytes(text: &str) -> Result<Number, String> {
    let (sign, rest) = sign(text);
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value = whole::<u64>(digits).map_err(|_| format!("{text} is not a number of bytes"))?;
    let unit = match rest[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        // That of find: blocks.
        "B" => 512,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        "P" => 1 << 50,
        "E" => 1 << 60,
        unit => return Err(format!("{unit} is not a unit of bytes: b, k, M, G, T, P or E")),
    };
    let value = value.checked_mul(unit).ok_or(format!("{text} is too much"))?;
    Ok(Number { sign, value, unit })
}

fn age(text: &str) -> Result<Number, String> {
    let (sign, rest) = sign(text);
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &rest[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "" | "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        unit => return Err(format!("{unit} is not a unit of time: s, m, h, d or w")),
    };
    let value = whole::<u64>(digits)?.checked_mul(unit).ok_or(format!("{text} is too long"))?;
    Ok(Number { sign, value, unit })
}

fn kind(text: &str) -> Result<u32, String> {
    Ok(match text {
        "p" => 0o01,
        "c" => 0o02,
        "d" => 0o04,
        "b" => 0o06,
        "f" => 0o10,
        "l" => 0o12,
        "s" => 0o14,
        _ => return Err(format!("{text} is not a type: b, c, d, f, l, p or s")),
    })
}

/// Returns a user or a group that a file of the system names.
fn id(file: &str, text: &str) -> Result<Number, String> {
    let value = ids::number(file, text)?.into();
    Ok(Number { sign: Sign::Equal, value, unit: 1 })
}

/// Returns the index of an OST.
fn ost(text: &str) -> Result<u32, String> {
    if let Ok(index) = text.parse() {
        return Ok(index);
    }
    let name = text.trim_end_matches("_UUID");
    let digits = name.rsplit_once("OST").map(|(_, digits)| u32::from_str_radix(digits, 16));
    match digits {
        Some(Ok(index)) => Ok(index),
        _ => Err(format!("{text} is not an OST: a number, or a name such as lv-OST0003_UUID")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<FindRequest, String> {
        FindRequest::parse(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn paths_come_before_conditions() {
        let wanted =
            parse("/a b ! --name x -size +2M -O 3,lv-OST001a_UUID --maxdepth=2 -print0").unwrap();
        assert_eq!(wanted.paths, [PathBuf::from("/a"), PathBuf::from("b")]);
        assert_eq!((wanted.depth, wanted.nul), (Some(2), true));
        let nots: Vec<bool> = wanted.conditions.iter().map(|one| one.is_not).collect();
        assert_eq!(nots, [true, false, false]);
        let more = Number { sign: Sign::More, value: 2 << 20, unit: 1 << 20 };
        assert!(matches!(&wanted.conditions[1].test, Test::Size(size) if *size == more));
        assert!(matches!(&wanted.conditions[2].test, Test::Ost(osts) if osts[..] == [3, 26]));
        let root = parse("a -user root").unwrap();
        assert!(matches!(root.conditions[0].test, Test::Uid(Number { value: 0, .. })));
    }

    #[test]
    fn wrong_words_are_explained() {
        for (line, why) in [
            ("-name x", "Paths come before"),
            ("a -name", "needs a value"),
            ("a -size x", "not a number of bytes"),
            ("a -size 1X", "not a unit of bytes"),
            ("a -size 99999999999P", "too much"),
            ("a -mtime 1y", "not a unit of time"),
            ("a -type x", "not a type"),
            ("a -user no.such.user", "give a number"),
            ("a -O x", "not an OST"),
            ("a -newer b", "not a condition"),
            ("a -type f b", "paths come first"),
            ("a !", "behind !"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
