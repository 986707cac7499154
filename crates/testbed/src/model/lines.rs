//! Outcomes as lines of text that parse back, for those who execute operations in other processes and machines.
//!
//! ```text
//! done                      error 2                  at 65536             refused yes          part 4096
//! bytes 2a91 00*4096 17     names d:d0 f:f1          text =value          texts =user.a =user.b
//! stat f 0644 5 5 1 100 8 now -300000000 now         acl u::rw-,g::r--,o::r--
//! ```
//!
//! Bytes are in hex, a run of one byte as `HEX*COUNT`. Attributes are in the order of [`Stat`]. What is not a plain character of a name is `%HEX`.

use std::fmt;
use std::str::FromStr;

use fulmar_base::Errno;

use super::outcome::{Kind, Outcome, Stat, Time};
use super::words::{Acl, Mode};

/// The shortest run of one byte that is written as a count.
const RUN: usize = 8;
/// The most bytes of an outcome: more than any operation reads.
const BYTES_MAX: usize = 64 << 20;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Failed(errno) => write!(f, "error {}", errno.0),
            Self::Part(len) => write!(f, "part {len}"),
            Self::Bytes(bytes) => {
                f.write_str("bytes")?;
                write_bytes(f, bytes)
            }
            Self::Position(at) => write!(f, "at {at}"),
            Self::Stat(stat) => write_stat(f, stat),
            Self::Names(names) => {
                f.write_str("names")?;
                names
                    .iter()
                    .try_for_each(|(name, kind)| write!(f, " {}:{}", letter(*kind), plain(name)))
            }
            Self::Text(text) => write!(f, "text ={}", plain(text)),
            Self::Texts(texts) => {
                f.write_str("texts")?;
                texts.iter().try_for_each(|text| write!(f, " ={}", plain(text)))
            }
            Self::Acl(acl) if acl.0.is_empty() => f.write_str("acl"),
            Self::Acl(acl) => write!(f, "acl {acl}"),
            Self::IsRefused(true) => f.write_str("refused yes"),
            Self::IsRefused(false) => f.write_str("refused no"),
        }
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        outcome(&words).ok_or_else(|| {
            let shown: String = line.chars().take(80).collect();
            format!("{shown:?} is not the outcome of an operation")
        })
    }
}

fn outcome(words: &[&str]) -> Option<Outcome> {
    let (verb, rest) = words.split_first()?;
    let is_without_more = |outcome| rest.is_empty().then_some(outcome);
    match (*verb, rest) {
        ("done", _) => is_without_more(Outcome::Done),
        ("error", [errno]) => Some(Outcome::Failed(Errno(errno.parse().ok()?))),
        ("part", [len]) => Some(Outcome::Part(len.parse().ok()?)),
        ("bytes", parts) => read_bytes(parts).map(Outcome::Bytes),
        ("at", [at]) => Some(Outcome::Position(at.parse().ok()?)),
        ("stat", parts) => read_stat(parts).map(Outcome::Stat),
        ("names", names) => {
            let name = |word: &&str| {
                let (kind, name) = word.split_once(':')?;
                Some((exact(name)?, of_letter(kind)?))
            };
            names.iter().map(name).collect::<Option<_>>().map(Outcome::Names)
        }
        ("text", [text]) => Some(Outcome::Text(value(text)?)),
        ("texts", texts) => {
            texts.iter().map(|text| value(text)).collect::<Option<_>>().map(Outcome::Texts)
        }
        ("acl", []) => Some(Outcome::Acl(Acl::default())),
        ("acl", [acl]) => Some(Outcome::Acl(acl.parse().ok()?)),
        ("refused", ["yes"]) => Some(Outcome::IsRefused(true)),
        ("refused", ["no"]) => Some(Outcome::IsRefused(false)),
        _ => None,
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut is_inside = false;
    for run in bytes.chunk_by(|one, other| one == other) {
        let byte = run[0];
        if run.len() >= RUN {
            write!(f, " {byte:02x}*{}", run.len())?;
            is_inside = false;
            continue;
        }
        f.write_str(if is_inside { "" } else { " " })?;
        run.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        is_inside = true;
    }
    Ok(())
}

fn read_bytes(parts: &[&str]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts {
        let Some((byte, count)) = part.split_once('*') else {
            let pairs = part.as_bytes().chunks(2).map(hex);
            bytes.extend(pairs.collect::<Option<Vec<u8>>>()?);
            continue;
        };
        let len = bytes.len().checked_add(count.parse().ok()?).filter(|len| *len <= BYTES_MAX)?;
        bytes.resize(len, hex(byte.as_bytes())?);
    }
    Some(bytes)
}

/// Reads a byte of two hex digits.
fn hex(digits: &[u8]) -> Option<u8> {
    let [high, low] = <[u8; 2]>::try_from(digits).ok()?.map(|digit| (digit as char).to_digit(16));
    Some((high? << 4 | low?) as u8)
}

fn write_stat(f: &mut fmt::Formatter<'_>, stat: &Stat) -> fmt::Result {
    let time = |time: Option<Time>| match time {
        Some(Time::Now) => "now".to_owned(),
        Some(Time::At(seconds)) => seconds.to_string(),
        None => "any".to_owned(),
    };
    let size = stat.size.map_or("any".to_owned(), |size| size.to_string());
    let Stat { kind, mode, uid, gid, links, blocks, .. } = stat;
    write!(f, "stat {} {} {uid} {gid} {links} {size}", letter(*kind), Mode(*mode))?;
    write!(f, " {} {}", blocks.start(), time(stat.atime))?;
    write!(f, " {} {}", time(stat.mtime), time(Some(stat.ctime)))
}

fn read_stat(parts: &[&str]) -> Option<Stat> {
    let time = |word: &str| match word {
        "now" => Some(Some(Time::Now)),
        "any" => Some(None),
        seconds => seconds.parse().ok().map(|seconds| Some(Time::At(seconds))),
    };
    let [kind, mode, uid, gid, links, size, blocks, atime, mtime, ctime] = *parts else {
        return None;
    };
    let blocks = blocks.parse().ok()?;
    Some(Stat {
        kind: of_letter(kind)?,
        mode: mode.parse::<Mode>().ok()?.0,
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        links: links.parse().ok()?,
        size: if size == "any" { None } else { Some(size.parse().ok()?) },
        blocks: blocks..=blocks,
        atime: time(atime)?,
        mtime: time(mtime)?,
        ctime: time(ctime)??,
    })
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => 'f',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
    }
}

fn of_letter(word: &str) -> Option<Kind> {
    [Kind::File, Kind::Directory, Kind::Symlink]
        .into_iter()
        .find(|kind| word.chars().eq([letter(*kind)]))
}

/// Writes a name or a value as one word.
fn plain(text: &str) -> String {
    let plain = |byte: u8| {
        if byte.is_ascii_graphic() && byte != b'%' {
            return (byte as char).to_string();
        }
        format!("%{byte:02x}")
    };
    text.bytes().map(plain).collect()
}

/// Reads a value with `=` in front, so that it may be empty.
fn value(word: &str) -> Option<String> {
    exact(word.strip_prefix('=')?)
}

/// Reads what [`plain`] writes.
fn exact(word: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    while let Some((first, others)) = rest.split_first() {
        let is_escape = *first == b'%';
        bytes.push(if is_escape { hex(others.get(..2)?)? } else { *first });
        rest = if is_escape { &others[2..] } else { others };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_lines_that_parse_back() {
        for line in [
            "done",
            "error 116",
            "part 4096",
            "bytes",
            "bytes 2a91 00*4096 17 ff*8",
            "bytes 00000000000000",
            "at 65536",
            "stat f 0644 5 7 2 100 8 now -300000000 now",
            "stat d 2755 0 0 3 4096 8 any any now",
            "names",
            "names d:d0 f:f%20:1 l:s%c3%a9%25",
            "text =",
            "text =../f=0",
            "texts",
            "texts =user.a =user.%0a",
            "acl",
            "acl u::rwx,u:5:r--,g::r-x,m::rwx,o::---",
            "refused yes",
            "refused no",
        ] {
            let outcome: Outcome = line.parse().unwrap();
            assert_eq!(outcome.to_string(), line);
        }
        let mixed = [vec![1, 2], vec![0; 700], vec![3; 7], vec![9]].concat();
        let line = Outcome::Bytes(mixed.clone()).to_string();
        assert_eq!(line, "bytes 0102 00*700 0303030303030309");
        assert_eq!(line.parse::<Outcome>().unwrap(), Outcome::Bytes(mixed));
    }

    #[test]
    fn what_is_not_an_outcome_is_refused() {
        for line in [
            "",
            "done it",
            "error",
            "error x",
            "bytes 2",
            "bytes 2a+1",
            "bytes 00*67108865",
            "bytes 00*99999999999999999999",
            "stat f 0644",
            "names x:f0",
            "names f0",
            "text f0",
            "text =%f",
            "text =%ff",
            "refused perhaps",
        ] {
            let error = line.parse::<Outcome>().unwrap_err();
            assert_eq!(error, format!("{line:?} is not the outcome of an operation"));
        }
    }
}
