//! The identity of an object on an OST.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Reader, Writer};

use crate::Fid;
use crate::ldlm::ResourceId;
use crate::serial::as_text;

/// An object: 16 bytes, of which the second 8 are zero in the old form. The same object may be sent
/// in either form, so both are kept. Spec: mdt-ost §2.2.
#[doc(alias = "ost_id")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OstId {
    /// The number of an object of sequence 0, which MDT0000 of an old release made.
    Old(u64),
    /// A FID; its object and version are not both 0.
    Fid(Fid),
}

impl OstId {
    /// Numbers of old objects are below this.
    #[doc(alias = "IDIF_MAX_OID")]
    pub const OLD_END: u64 = 1 << 48;

    /// Returns the FID of the object on the OST with this index; `None` for an old object whose
    /// number is too large.
    #[doc(alias = "ostid_to_fid")]
    pub fn fid(self, ost_index: u16) -> Option<Fid> {
        match self {
            Self::Fid(fid) => Some(fid),
            Self::Old(id) if id < Self::OLD_END => {
                let seq = Fid::IDIF_START | u64::from(ost_index) << 16 | id >> 32;
                Some(Fid { seq, oid: id as u32, version: 0 })
            }
            Self::Old(_) => None,
        }
    }

    /// Returns the resource of the locks of the object.
    pub fn resource(self) -> ResourceId {
        match self {
            Self::Old(id) => ResourceId::of_old_object(id),
            Self::Fid(fid) => match fid.old_object() {
                Some(id) => ResourceId::of_old_object(id),
                None => ResourceId::of_fid(fid),
            },
        }
    }
}

impl Default for OstId {
    fn default() -> Self {
        Self::Old(0)
    }
}

impl Field for OstId {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let fid = Fid::read(r, name)?;
        Ok(if (fid.oid, fid.version) == (0, 0) { Self::Old(fid.seq) } else { Self::Fid(fid) })
    }

    fn write(&self, w: &mut Writer<'_>) {
        match *self {
            Self::Old(id) => Fid { seq: id, oid: 0, version: 0 }.write(w),
            Self::Fid(fid) => fid.write(w),
        }
    }
}

impl fmt::Display for OstId {
    /// Writes a FID, or `0x0:7` for an old object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(id) => write!(f, "0x0:{id}"),
            Self::Fid(fid) => write!(f, "{fid}"),
        }
    }
}

as_text!(OstId);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;
    use crate::testing::check_example;

    crate::testing::sizes! { OstId = 16 }

    #[test]
    fn an_old_object_has_a_fid_that_depends_on_its_ost() {
        let id: OstId = check_example(&[1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((id, id.to_string()), (OstId::Old(0x7_0000_0001), "0x0:30064771073".to_owned()));
        let fid = Fid { seq: 0x1_0002_0007, oid: 1, version: 0 };
        assert_eq!(id.fid(2), Some(fid));
        assert_eq!(fid.old_object(), Some(0x7_0000_0001));
        assert_eq!(OstId::Fid(fid).resource(), id.resource());
        assert_eq!(id.resource().name, [0x7_0000_0001, 0, 0, 0]);
        assert_eq!(OstId::Old(1 << 48).fid(0), None);
    }

    #[test]
    fn a_new_object_is_its_fid() {
        let fid = Fid { seq: 0x2_4000_0400, oid: 0x4f, version: 0 };
        let id: OstId = check_example(&fid.to_bytes());
        assert_eq!((id, id.fid(3)), (OstId::Fid(fid), Some(fid)));
        assert_eq!(id.to_string(), "[0x240000400:0x4f:0x0]");
        assert_eq!(id.resource(), ResourceId::of_fid(fid));
    }
}
