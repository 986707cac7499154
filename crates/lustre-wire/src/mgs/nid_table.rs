//! The table of the NIDs of targets, by which clients reconnect at once after a failover.
//!
//! ```text
//! entry     0 version  8 instance  12 index  16 length  20 target  21 NID form  22 NID size
//!          23 NID count  24 NIDs, unused room to the length
//! ```
//! Spec: ptlrpc-ldlm-mgs §32.2.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

use crate::content::{read_rest, write_all};
use crate::{Bytes, Content, LargeNid, SmallNid};

/// A change of a target.
#[doc(alias = "mgs_nidtbl_entry")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct NidTableEntry {
    /// The version of the table with this change.
    pub version: u64,
    /// The target's incarnation.
    pub instance: u32,
    /// The index of the target.
    pub index: u32,
    /// 1 of an MDT, 2 of an OST.
    #[doc(alias = "mne_type")]
    pub target: u8,
    /// The current NIDs of the target; fewer than 256.
    pub nids: NidTableNids,
    /// Unused room: entries do not cross units.
    #[serde(skip)]
    pub rest: Bytes,
}

/// NIDs in one of the forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum NidTableNids {
    /// For old readers.
    Small(Vec<SmallNid>),
    Large(Vec<LargeNid>),
}

impl NidTableEntry {
    const HEADER_LEN: usize = 24;
    const SMALL: (u8, u8) = (0, 8);
    const LARGE: (u8, u8) = (1, 20);

    /// Returns the length in bytes, unused room included.
    pub fn encoded_len(&self) -> usize {
        let ((_, size), count) = self.form();
        Self::HEADER_LEN + count * usize::from(size) + self.rest.0.len()
    }

    fn form(&self) -> ((u8, u8), usize) {
        match &self.nids {
            NidTableNids::Small(nids) => (Self::SMALL, nids.len()),
            NidTableNids::Large(nids) => (Self::LARGE, nids.len()),
        }
    }
}

impl Field for NidTableEntry {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let version = r.u64("NidTableEntry.version")?;
        let instance = r.u32("NidTableEntry.instance")?;
        let index = r.u32("NidTableEntry.index")?;
        let len = r.u32("NidTableEntry.length")?;
        let target = r.u8("NidTableEntry.target")?;
        let form = (r.u8("NidTableEntry.nid_form")?, r.u8("NidTableEntry.nid_size")?);
        let count = usize::from(r.u8("NidTableEntry.nid_count")?);
        let range = DecodeError::Range { field: "NidTableEntry.length", got: len.into() };
        let body_len = (len as usize).checked_sub(Self::HEADER_LEN).ok_or(range)?;
        let mut body = r.sub("NidTableEntry.body", body_len)?;
        let mut nids = body.sub("NidTableEntry.nids", count * usize::from(form.1))?;
        let nids = match form {
            Self::SMALL => NidTableNids::Small(read_rest(&mut nids, "NidTableEntry.nids")?),
            Self::LARGE => NidTableNids::Large(read_rest(&mut nids, "NidTableEntry.nids")?),
            (form, size) => {
                let got = u64::from(form) << 8 | u64::from(size);
                return Err(DecodeError::Range { field: "NidTableEntry.nid_form", got });
            }
        };
        let rest = Bytes::take_rest(&mut body);
        Ok(Self { version, instance, index, target, nids, rest })
    }

    fn write(&self, w: &mut Writer<'_>) {
        let ((form, size), count) = self.form();
        w.u64(self.version);
        w.u32(self.instance);
        w.u32(self.index);
        w.u32(self.encoded_len() as u32);
        w.u8(self.target);
        w.u8(form);
        w.u8(size);
        w.u8(count as u8);
        match &self.nids {
            NidTableNids::Small(nids) => write_all(nids, w),
            NidTableNids::Large(nids) => write_all(nids, w),
        }
        w.bytes(&self.rest.0);
    }
}

/// The entries of a table, by version: a bulk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NidTable(pub Vec<NidTableEntry>);

impl Content for NidTable {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        read_rest(&mut Reader::new(bytes, order), "NidTable").map(Self)
    }

    fn encode(&self, w: &mut Writer<'_>) {
        write_all(&self.0, w);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::{check_any, check_example};

    /// The entry of ptlrpc-ldlm-mgs §39.6.
    const ENTRY: &str = "03 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 2c 00 00 00 01 01 14 01
        00 02 00 00 0a 63 00 02 00 00 00 00 00 00 00 00 00 00 00 00";

    #[test]
    fn a_target_has_large_nids() {
        let NidTable(entries) = check_example(&hex(ENTRY).repeat(2));
        let [entry, _] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((entry.version, entry.instance, entry.index, entry.target), (3, 1, 0, 1));
        let NidTableNids::Large(nids) = &entry.nids else { panic!("{entry:?}") };
        assert_eq!(nids[0].to_string(), "10.99.0.2@tcp");
        check_any::<NidTable>(&[]);
    }

    #[test]
    fn a_target_has_small_nids_for_old_readers() {
        let bytes = hex("03 00 00 00 00 00 00 00 01 00 00 00 02 00 00 00 24 00 00 00 02 00 08 01
             02 00 63 0a 00 00 02 00 00 00 00 00");
        let NidTable(entries) = check_example(&bytes);
        let nids = NidTableNids::Small(vec![SmallNid(0x0002_0000_0a63_0002)]);
        assert_eq!((&entries[0].nids, entries[0].rest.0.len()), (&nids, 4));
    }

    #[test]
    fn an_entry_has_room_for_its_nids() {
        for (at, byte) in [(16, 23), (16, 43), (16, 45), (21, 2), (22, 8), (23, 2)] {
            let mut bytes = hex(ENTRY);
            bytes[at] = byte;
            assert!(NidTable::decode(&bytes, Order::Little).is_err(), "{at}");
        }
    }
}
