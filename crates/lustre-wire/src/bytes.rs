//! Bytes that are text, padding or data.

use std::fmt::{self, Write};

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};

use crate::Content;
use crate::serial::as_text;

/// Text in an array of `N` bytes. It ends at the first NUL; what stands behind it, such as the end
/// of an earlier and longer text, is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// Returns `text` followed by NULs; `None` if less than one NUL fits, or `text` contains one.
    pub fn new(text: &str) -> Option<Self> {
        if text.len() >= N || text.contains('\0') {
            return None;
        }
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self(bytes))
    }

    /// Returns the bytes before the first NUL.
    pub fn as_bytes(&self) -> &[u8] {
        until_nul(&self.0)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Field for Text<N> {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.array(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<const N: usize> serde::Serialize for Text<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the bytes before the first NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Serialises a name, whose bytes need not be UTF-8.
pub(crate) fn show_name<S: serde::Serializer>(name: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&name.escape_ascii())
}

/// Bytes without a meaning, which are zero from most peers. They are kept, because a value encodes
/// to the bytes that it was decoded from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Padding<const N: usize>(pub [u8; N]);

impl<const N: usize> Padding<N> {
    /// Returns whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; N]
    }
}

impl<const N: usize> Default for Padding<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Field for Padding<N> {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.array(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

impl<const N: usize> fmt::Debug for Padding<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() { f.write_char('0') } else { write_hex(&self.0, f) }
    }
}

impl<const N: usize> serde::Serialize for Padding<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

/// Data of any length: a value of an extended attribute, a security context, the end of a buffer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Content for Bytes {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        Ok(Self(bytes.to_vec()))
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

impl Bytes {
    /// Reads the rest of `r`.
    pub(crate) fn take_rest(r: &mut Reader<'_>) -> Self {
        let rest = r.rest();
        *r = Reader::new(&[], r.order());
        Self(rest.to_vec())
    }
}

impl fmt::Display for Bytes {
    /// Writes hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

as_text!(Bytes);

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_fixed};

    #[test]
    fn text_ends_at_the_first_nul_and_keeps_the_rest() {
        check_fixed::<Text<8>>(8);
        let text = Text(*b"add\0mdc\xff");
        assert_eq!((text.to_string().as_str(), text.as_bytes()), ("add", b"add".as_slice()));
        assert_eq!(Text::new("add"), Some(Text(*b"add\0\0")));
        assert_eq!(Text::<3>::new("add"), None);
        assert_eq!(Text::<9>::new("a\0b"), None);
        assert_eq!(format!("{:?}", Text([0xff, b'a', 0])), "\"\\xffa\"");
    }

    #[test]
    fn padding_and_data_are_kept() {
        check_fixed::<Padding<5>>(5);
        check_any::<Bytes>(&[1, 2, 3]);
        assert!(Padding::<4>::default().is_zero());
        assert_eq!(format!("{:?} {:?}", Padding([0; 2]), Padding([0, 0xa])), "0 000a");
        assert_eq!(Bytes(vec![0x0b, 0xd1]).to_string(), "0bd1");
    }
}
