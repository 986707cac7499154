//! NIDs as they are stored in structures: bytes that need not be a valid NID.

use std::fmt;

use fulmar_lnet_wire::Nid;
use fulmar_wire::{DecodeError, Field, Reader, Writer};

use crate::serial::as_text;

/// A NID of 4 bytes, as a number.
#[doc(alias = "lnet_nid_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmallNid(pub u64);

impl SmallNid {
    /// Returns the NID. Several numbers are the wildcard.
    pub fn nid(self) -> Nid {
        Nid::from_small(self.0)
    }
}

impl Field for SmallNid {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.u64(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.0);
    }
}

impl fmt::Display for SmallNid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{}", self.nid()) }
    }
}

/// The 20 bytes of a NID of any size.
#[doc(alias = "lnet_nid")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeNid(pub [u8; Nid::LARGE_LEN]);

impl LargeNid {
    /// Returns the NID.
    ///
    /// # Errors
    /// If the bytes are not a NID.
    pub fn nid(self) -> Result<Nid, DecodeError> {
        Nid::from_large(self.0)
    }
}

impl Field for LargeNid {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.array(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

impl fmt::Display for LargeNid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nid() {
            Ok(nid) => write!(f, "{nid}"),
            Err(_) => write!(f, "{}", crate::Bytes(self.0.to_vec())),
        }
    }
}

as_text!(SmallNid, LargeNid);

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { SmallNid = 8, LargeNid = 20 }

    #[test]
    fn a_nid_is_shown_as_text() {
        let nid: Nid = "10.99.0.2@tcp".parse().unwrap();
        let small = SmallNid(0x0002_0000_0a63_0002);
        assert_eq!((small.nid(), small.to_string().as_str()), (nid, "10.99.0.2@tcp"));
        let large = LargeNid(nid.to_large());
        assert_eq!((large.nid(), large.to_string().as_str()), (Ok(nid), "10.99.0.2@tcp"));
        assert_eq!(SmallNid::default().to_string(), "0");
        assert_eq!(LargeNid([9; 20]).to_string(), "09".repeat(20));
    }
}
