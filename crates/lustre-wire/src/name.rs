//! Names of files, of logs, of attributes.

use std::fmt;

use fulmar_wire::{DecodeError, Order, Writer};
use serde::Serialize;

use crate::Content;
use crate::bytes::until_nul;
use crate::serial::as_text;

/// Text that fills its buffer: bytes without NUL, and one NUL. Spec: ptlrpc-ldlm-mgs §4.4.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// Returns a name; `None` if it contains NUL.
    pub fn new(name: impl Into<Vec<u8>>) -> Option<Self> {
        let name = name.into();
        (!name.contains(&0)).then_some(Self(name))
    }

    /// Returns the bytes, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Content for Name {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        match bytes.split_last() {
            Some((0, name)) => Self::new(name),
            _ => None,
        }
        .ok_or(DecodeError::Range { field: "name", got: bytes.len() as u64 })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
        w.u8(0);
    }
}

impl fmt::Display for Name {
    /// Writes text as it is, if it is UTF-8 without control characters; else each odd byte escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.contains(char::is_control) => f.write_str(text),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

as_text!(Name);

/// Names one after the other, each with its NUL: the names of extended attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Names(pub Vec<Name>);

impl Content for Names {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let mut names: Vec<&[u8]> = bytes.split(|&byte| byte == 0).collect();
        match names.pop() {
            Some([]) => Ok(Self(names.into_iter().map(|name| Name(name.to_vec())).collect())),
            rest => {
                let got = rest.unwrap_or_default().len() as u64;
                Err(DecodeError::Range { field: "names", got })
            }
        }
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.0.iter().for_each(|name| name.encode(w));
    }
}

/// The key of a value: text, and what the sender has after it, usually one NUL.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key(pub Vec<u8>);

impl Key {
    /// Returns the bytes before the first NUL.
    pub fn as_bytes(&self) -> &[u8] {
        until_nul(&self.0)
    }
}

impl Content for Key {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        Ok(Self(bytes.to_vec()))
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

as_text!(Key);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    #[test]
    fn a_name_fills_its_buffer() {
        let name: Name = check_example(b"f1\0");
        assert_eq!((name.as_bytes(), name.to_string().as_str()), (b"f1".as_slice(), "f1"));
        assert_eq!(check_example::<Name>(b"\0"), Name::default());
        for wrong in [b"".as_slice(), b"f1", b"f\0\0", b"f\x001\0"] {
            assert!(Name::decode(wrong, Order::Little).is_err(), "{wrong:?}");
        }
        assert_eq!(Name::new("a\0b"), None);
        let texts =
            ["\u{e9}", "a\n", "a\u{1b}[2J"].map(|text| Name::new(text).unwrap().to_string());
        assert_eq!(texts, ["\u{e9}", "a\\n", "a\\x1b[2J"]);
        assert_eq!(Name::new([0xff, b'a']).unwrap().to_string(), "\\xffa");
    }

    #[test]
    fn a_key_keeps_what_follows_it() {
        assert_eq!(check_example::<Key>(b"last_fid\0\0").to_string(), "last_fid");
        assert_eq!(Key(b"evict".to_vec()).as_bytes(), b"evict");
    }

    #[test]
    fn names_follow_each_other() {
        let names: Names = check_example(b"user.a\0trusted.lov\0");
        assert_eq!(names.0.len(), 2);
        assert!(Names::decode(b"user.a", Order::Little).is_err());
        check_any::<Names>(b"");
    }
}
