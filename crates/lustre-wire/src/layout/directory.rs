//! The stripes of a directory.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use super::LayoutMagic;
use crate::content::write_all;
use crate::{Bytes, Content, Fid, Padding, Text};

wire_enum! {
    /// The function from a name to its stripe. Spec: mdt-ost §12.2.
    #[doc(alias = "LMV_HASH_TYPE")]
    #[derive(Default)]
    pub struct HashFunction(u16) {
        /// The sum of the bytes.
        ALL_CHARS = 1,
        /// FNV-1a of 64 bits.
        FNV_1A_64 = 2,
        /// Names that differ only in a temporary suffix have one stripe, and few names move.
        CRUSH = 3,
        /// Like `CRUSH`, and stricter about suffixes.
        CRUSH2 = 4,
    }
}

wire_flags! {
    /// The state of the stripes of a directory. Spec: mdt-ost §12.2.
    #[doc(alias = "LMV_HASH_FLAG")]
    pub struct HashFlags(u32) {
        OVERSTRIPED = 0x0100_0000,
        FIXED = 0x0200_0000,
        MERGE = 0x0400_0000,
        SPLIT = 0x0800_0000,
        LOST_LMV = 0x1000_0000,
        BAD_TYPE = 0x2000_0000,
        DEAD = 0x4000_0000,
        MIGRATION = 0x8000_0000,
    }
}

/// The hash of a directory: the function in the lower 16 bits of a word, and flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct HashType {
    pub function: HashFunction,
    pub flags: HashFlags,
}

impl Field for HashType {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let word = r.u32(name)?;
        Ok(Self { function: HashFunction(word as u16), flags: HashFlags(word & 0xffff_0000) })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.flags.0 & 0xffff_0000 | u32::from(self.function.0));
    }
}

wire_struct! {
    /// The head of the layout of a directory: 56 bytes. Spec: mdt-ost §12.1.
    #[doc(alias = "lmv_mds_md_v1")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LmvHeader {
        pub magic: LayoutMagic,
        pub stripe_count: u32,
        /// The index of the MDT that has the directory; of a stripe, its own number.
        pub master: u32,
        pub hash: HashType,
        pub version: u32,
        /// Where the stripes of the other layout start, while the directory moves.
        pub migrate_offset: u32,
        /// The hash of the other layout, while the directory moves.
        pub migrate_hash: HashType,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<12>,
        pub pool: Text<16>,
    }
}

/// The layout of a striped directory: its head and 16 bytes for each stripe. Little-endian from
/// every peer. Spec: mdt-ost §12.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LmvMd {
    /// The head.
    #[serde(flatten)]
    pub header: LmvHeader,
    /// The stripes; each is a directory.
    pub stripes: Vec<Fid>,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl Content for LmvMd {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let header = LmvHeader::read(r, "LmvMd.header")?;
        if !matches!(header.magic, LayoutMagic::LMV_V1 | LayoutMagic::LMV_STRIPE) {
            return Err(DecodeError::Magic { got: header.magic.0 });
        }
        let stripes = read_present(r, header.stripe_count);
        Ok(Self { header, stripes, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        self.header.write(w);
        write_all(&self.stripes, w);
        w.bytes(&self.rest.0);
    }
}

wire_struct! {
    /// The head of a wanted or default layout of directories: 48 bytes. Spec: mdt-ost §12.1.
    #[doc(alias = "lmv_user_md_v1")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LmvUserHeader {
        pub magic: LayoutMagic,
        pub stripe_count: u32,
        /// The index of the first MDT; `u32::MAX` for any.
        pub stripe_offset: u32,
        pub hash: HashType,
        pub kind: u32,
        /// How many levels of directories inherit it.
        pub max_inherit: u8,
        /// How many levels of directories are spread over the MDTs in turn.
        pub max_inherit_rr: u8,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<10>,
        pub pool: Text<16>,
    }
}

wire_struct! {
    /// The MDT of a wanted stripe: 24 bytes. Spec: mdt-ost §12.1.
    #[doc(alias = "lmv_user_mds_data")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct DefaultStripe {
        pub fid: Fid,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
        /// The index of the MDT.
        pub mdt: u32,
    }
}

/// A wanted or default layout of directories. Little-endian from every peer. Spec: mdt-ost §12.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LmvUserMd {
    /// The head.
    #[serde(flatten)]
    pub header: LmvUserHeader,
    /// The MDTs, if certain ones are wanted: then the magic is [`LayoutMagic::LMV_STRIPE`].
    pub stripes: Vec<DefaultStripe>,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl LmvUserMd {
    /// Returns a wanted layout of so many stripes, `u32::MAX` for as many as MDTs, from an MDT on, `u32::MAX` for any.
    pub fn wanted(stripe_count: u32, stripe_offset: u32) -> Self {
        let header = LmvUserHeader {
            magic: LayoutMagic::LMV_USER,
            stripe_count,
            stripe_offset,
            hash: HashType::default(),
            kind: 0,
            max_inherit: 0,
            max_inherit_rr: 0,
            padding: Padding::default(),
            pool: Text::default(),
        };
        Self { header, stripes: Vec::new(), rest: Bytes::default() }
    }

    /// Wants the stripes on these MDTs.
    #[must_use]
    pub fn on(mut self, mdts: &[u32]) -> Self {
        self.header.magic = LayoutMagic::LMV_STRIPE;
        self.stripes = mdts
            .iter()
            .map(|mdt| DefaultStripe { mdt: *mdt, ..DefaultStripe::default() })
            .collect();
        self
    }
}

impl Content for LmvUserMd {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let header = LmvUserHeader::read(r, "LmvUserMd.header")?;
        let stripes = match header.magic {
            LayoutMagic::LMV_USER => vec![],
            LayoutMagic::LMV_STRIPE => read_present(r, header.stripe_count),
            LayoutMagic(got) => return Err(DecodeError::Magic { got }),
        };
        Ok(Self { header, stripes, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        self.header.write(w);
        write_all(&self.stripes, w);
        w.bytes(&self.rest.0);
    }
}

/// Reads `count` values, or fewer if the buffer ends before.
fn read_present<T: Field>(r: &mut Reader<'_>, count: u32) -> Vec<T> {
    let mut values = Vec::new();
    while values.len() < count as usize {
        let mut next = *r;
        let Ok(value) = T::read(&mut next, "stripe") else { break };
        values.push(value);
        *r = next;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! {
        HashType = 4, LmvHeader = 56, LmvUserHeader = 48, DefaultStripe = 24,
    }

    #[test]
    fn a_striped_directory_has_a_stripe_on_each_mdt() {
        let mut bytes = vec![0; 56];
        bytes[..4].copy_from_slice(&LayoutMagic::LMV_V1.0.to_le_bytes());
        (bytes[4], bytes[12], bytes[15]) = (2, 3, 0x84);
        for oid in [1, 2] {
            bytes.extend(Fid { seq: 0x2_0000_0400, oid, version: 0 }.to_bytes());
        }
        let layout: LmvMd = check_example(&bytes);
        assert_eq!(layout.header.hash.function, HashFunction::CRUSH);
        assert_eq!(layout.header.hash.flags, HashFlags::MIGRATION | HashFlags::MERGE);
        assert_eq!(layout.stripes.iter().map(|fid| fid.oid).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(check_example::<LmvMd>(&bytes[..80]).rest.0.len(), 8);
    }

    #[test]
    fn a_default_layout_is_inherited() {
        let mut bytes = vec![0; 56];
        bytes[..4].copy_from_slice(&LayoutMagic::LMV_USER.0.to_le_bytes());
        (bytes[4], bytes[20], bytes[21]) = (1, 3, 2);
        bytes[8..12].fill(0xff);
        let layout: LmvUserMd = check_example(&bytes);
        assert_eq!((layout.header.stripe_offset, layout.header.max_inherit), (u32::MAX, 3));
        assert_eq!((layout.stripes.len(), layout.rest.0.len()), (0, 8));
        bytes[2] = 0xd4;
        bytes.extend([0; 16]);
        bytes[48 + 20] = 5;
        assert_eq!(check_example::<LmvUserMd>(&bytes).stripes[0].mdt, 5);
    }
}
