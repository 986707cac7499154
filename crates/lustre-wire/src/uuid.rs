//! Names of targets and clients.

use std::fmt;

use fulmar_wire::{DecodeError, Order, Writer};

use crate::Content;
use crate::serial::as_text;

/// The name of a target or of a client: at most 39 bytes of text, without NUL.
/// Spec: ptlrpc-ldlm-mgs §1.2.
#[doc(alias = "obd_uuid")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid {
    bytes: [u8; Self::LEN_MAX],
}

impl Uuid {
    /// The longest name.
    pub const LEN_MAX: usize = 39;

    /// Returns the name with this text; `None` if it is too long or contains NUL.
    pub fn new(text: &str) -> Option<Self> {
        Self::of_bytes(text.as_bytes())
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(Self::LEN_MAX);
        self.bytes.get(..len).unwrap_or_default()
    }

    fn of_bytes(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LEN_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        (!name.contains(&0)).then_some(Self { bytes })
    }
}

impl Default for Uuid {
    fn default() -> Self {
        Self { bytes: [0; Self::LEN_MAX] }
    }
}

impl Content for Uuid {
    /// Decodes a name and the zeros after it. The longest name has none.
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let (name, zeros) = bytes.split_at(len);
        if let Some(&got) = zeros.iter().find(|&&byte| byte != 0) {
            return Err(DecodeError::Range { field: "uuid", got: got.into() });
        }
        Self::of_bytes(name).ok_or(DecodeError::Range { field: "uuid.length", got: len as u64 })
    }

    /// Appends the name and zeros, [`Uuid::LEN_MAX`] bytes.
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.bytes);
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

as_text!(Uuid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_followed_by_zeros() {
        let mut bytes = [0; Uuid::LEN_MAX];
        bytes[..3].copy_from_slice(b"MGS");
        let decode = |bytes: &[u8]| Uuid::decode(bytes, Order::Little);
        let uuid = decode(&bytes).unwrap();
        assert_eq!((uuid.to_string().as_str(), uuid.to_bytes().as_slice()), ("MGS", &bytes[..]));
        assert_eq!((decode(b"MGS"), Uuid::new("MGS")), (Ok(uuid), Some(uuid)));
        bytes[5] = b'x';
        assert!(decode(&bytes).is_err());
        assert!(decode(&[b'x'; 40]).is_err());
        assert_eq!(decode(&[b'x'; 39]).unwrap().as_bytes(), [b'x'; 39]);
        assert_eq!(decode(b"a\xff").unwrap().to_string(), "a\\xff");
    }
}
