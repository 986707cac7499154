//! Names of targets and clients.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Reader, Writer};

use crate::serial::as_text;

/// The name of a target or of a client: at most 39 bytes of text, without NUL.
/// Spec: ptlrpc-ldlm-mgs §1.2.
///
/// As a field it has 40 bytes; as a buffer of a connect request [`Uuid::LEN_MAX`].
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

    /// Decodes a buffer: a name and then zeros, of which at least one is required where the buffer
    /// is longer than a name.
    ///
    /// # Errors
    /// If the name is longer than [`Uuid::LEN_MAX`], or bytes follow the first zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let (name, zeros) = bytes.split_at(len);
        if let Some(&got) = zeros.iter().find(|&&byte| byte != 0) {
            return Err(DecodeError::Range { field: "uuid", got: got.into() });
        }
        Self::of_bytes(name).ok_or(DecodeError::Range { field: "uuid.length", got: len as u64 })
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(Self::LEN_MAX);
        self.bytes.get(..len).unwrap_or_default()
    }

    /// Appends the buffer of a connect request: the name, filled with zeros.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
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

impl Field for Uuid {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Self::decode(r.take(name, Self::LEN_MAX + 1)?)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.bytes);
        w.u8(0);
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
    use fulmar_wire::testing::round_trip;

    use super::*;

    #[test]
    fn a_name_is_followed_by_zeros() {
        let mut bytes = [0; Uuid::LEN_MAX];
        bytes[..3].copy_from_slice(b"MGS");
        let mut again = Vec::new();
        let uuid = Uuid::decode(&bytes).unwrap();
        uuid.encode(&mut again);
        assert_eq!((uuid.to_string().as_str(), again.as_slice()), ("MGS", bytes.as_slice()));
        assert_eq!(Uuid::decode(b"MGS"), Ok(uuid));
        assert_eq!(Uuid::new("MGS"), Some(uuid));
        bytes[5] = b'x';
        assert!(Uuid::decode(&bytes).is_err());
        assert!(Uuid::decode(&[b'x'; 40]).is_err());
        assert_eq!(Uuid::decode(&[b'x'; 39]).unwrap().as_bytes(), [b'x'; 39]);
    }

    #[test]
    fn a_field_has_forty_bytes() {
        let mut bytes = [0; 40];
        bytes[..14].copy_from_slice(b"lv-MDT0000\xff_UU");
        let read = |bytes: &[u8]| Uuid::read(&mut Reader::new(bytes, Default::default()), "uuid");
        let write = |uuid: &Uuid, out: &mut Vec<u8>| {
            uuid.write(&mut Writer::new(out, Default::default()));
        };
        assert_eq!(round_trip(&bytes, read, write).to_string(), "lv-MDT0000\\xff_UU");
    }
}
