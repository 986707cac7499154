//! The stripes of a file.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use super::LayoutMagic;
use crate::content::write_all;
use crate::ost::OstId;
use crate::{Bytes, Content, Text};

wire_flags! {
    /// How the data is spread over the stripes; 0 in requests is RAID0. Spec: mdt-ost §11.1.
    #[doc(alias = "LOV_PATTERN")]
    pub struct Pattern(u32) {
        RAID0 = 0x1,
        RAID1 = 0x2,
        /// The stripes are parities of other components.
        PARITY = 0x4,
        /// The data is on the MDT.
        MDT = 0x100,
        /// An OST may have several stripes.
        OVERSTRIPING = 0x200,
        FOREIGN = 0x400,
        COMPRESS = 0x800,
        /// Some objects are missing.
        HOLE = 0x4000_0000,
        /// The data is only in the archive.
        RELEASED = 0x8000_0000,
    }
}

wire_struct! {
    /// The part of a layout that is the same for all plain ones: 32 bytes. Spec: mdt-ost §11.1.
    #[doc(alias = "lov_mds_md_v1")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LovHeader {
        pub magic: LayoutMagic,
        pub pattern: Pattern,
        /// The object number in the FID of the file.
        pub object: u64,
        /// The sequence of the file.
        pub seq: u64,
        /// Bytes.
        pub stripe_size: u32,
        /// [`LovMd::ALL_STRIPES`] for as many as possible.
        pub stripe_count: u16,
        /// The generation of the layout; in requests the index of the first OST, or `0xffff`.
        #[doc(alias = "lmm_stripe_offset")]
        pub generation: u16,
    }
}

wire_struct! {
    /// A stripe: 24 bytes. Spec: mdt-ost §11.1.
    #[doc(alias = "lov_ost_data_v1")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LovObject {
        pub id: OstId,
        pub generation: u32,
        /// The index of the OST.
        pub ost: u32,
    }
}

/// The layout of a file, or of one component of it: 32 bytes, or 48 with a pool, and 24 for each
/// object. Requests have no objects. Little-endian from every peer. Spec: mdt-ost §11.1.
#[doc(alias = "lov_mds_md")]
#[doc(alias = "lov_user_md")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LovMd {
    /// The part that all layouts have.
    #[serde(flatten)]
    pub header: LovHeader,
    /// The pool, in all forms but [`LayoutMagic::LOV_V1`].
    pub pool: Option<Text<16>>,
    /// The objects by stripe. A file that was never written may have none.
    pub objects: Vec<LovObject>,
    /// Unused room, and objects without a number.
    #[serde(skip)]
    pub rest: Bytes,
}

impl LovMd {
    /// As many stripes as possible.
    #[doc(alias = "LOV_ALL_STRIPES")]
    pub const ALL_STRIPES: u16 = 0xffff;
    /// The bytes of the place of an object.
    pub const OBJECT_LEN: usize = 24;

    /// Returns a request for stripes on any OSTs. 0 is the default of the file system.
    pub fn wanted(stripe_size: u32, stripe_count: u16) -> Self {
        let header = LovHeader {
            magic: LayoutMagic::LOV_V1,
            pattern: Pattern::NONE,
            object: 0,
            seq: 0,
            stripe_size,
            stripe_count,
            generation: 0xffff,
        };
        Self { header, pool: None, objects: Vec::new(), rest: Bytes::default() }
    }

    /// Returns the places of the objects, also of those without a number: who wants certain OSTs sends
    /// only these. There may be fewer than stripes.
    pub fn places(&self) -> Vec<LovObject> {
        let mut places = self.objects.clone();
        let r = &mut Reader::new(&self.rest.0, Order::Little);
        while places.len() < usize::from(self.header.stripe_count) {
            let Ok(place) = LovObject::read(r, "LovMd.place") else { break };
            places.push(place);
        }
        places
    }

    fn has_pool(magic: LayoutMagic) -> Result<bool, DecodeError> {
        match magic {
            LayoutMagic::LOV_V1 => Ok(false),
            LayoutMagic::LOV_V3 | LayoutMagic::LOV_SPECIFIC => Ok(true),
            LayoutMagic(got) => Err(DecodeError::Magic { got }),
        }
    }
}

impl Content for LovMd {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let header = LovHeader::read(r, "LovMd.header")?;
        let pool =
            if Self::has_pool(header.magic)? { Some(Field::read(r, "LovMd.pool")?) } else { None };
        let mut objects = Vec::new();
        while objects.len() < usize::from(header.stripe_count) {
            let mut next = *r;
            match LovObject::read(&mut next, "LovMd.object") {
                Ok(object) if object.id != OstId::default() => objects.push(object),
                _ => break,
            }
            *r = next;
        }
        Ok(Self { header, pool, objects, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        self.header.write(w);
        if let Some(pool) = &self.pool {
            pool.write(w);
        }
        write_all(&self.objects, w);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::Fid;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { LovHeader = 32, LovObject = 24 }

    /// The layout of a created file, mdt-ost §26.2.
    const CREATED: &str = "d0 0b d1 0b 01 00 00 00 03 00 00 00 00 00 00 00
        01 04 00 00 02 00 00 00 00 00 40 00 01 00 00 00
        00 04 00 80 02 00 00 00 02 00 00 00 00 00 00 00
        00 00 00 00 01 00 00 00";

    #[test]
    fn a_file_has_an_object_for_each_stripe() {
        let layout: LovMd = check_example(&hex(CREATED));
        let LovHeader { magic, pattern, stripe_size, stripe_count, .. } = layout.header;
        assert_eq!((magic, pattern), (LayoutMagic::LOV_V1, Pattern::RAID0));
        assert_eq!((stripe_size, stripe_count, layout.pool), (4 << 20, 1, None));
        let id = OstId::Fid(Fid { seq: 0x2_8000_0400, oid: 2, version: 0 });
        assert_eq!(layout.objects, [LovObject { id, generation: 0, ost: 1 }]);
    }

    #[test]
    fn unused_room_is_no_object() {
        let mut bytes = hex(CREATED);
        bytes[28] = 3;
        bytes.extend([0; 60]);
        let layout: LovMd = check_example(&bytes);
        assert_eq!((layout.objects.len(), layout.rest.0.len()), (1, 60));
    }

    #[test]
    fn a_layout_may_want_osts_and_have_no_objects() {
        let mut bytes = hex(CREATED)[..32].to_vec();
        (bytes[28], bytes[2]) = (3, 0xd5);
        bytes.extend([0; 16]);
        for ost in [4, 2] {
            let place = LovObject { ost, ..LovObject::default() };
            place.write(&mut Writer::new(&mut bytes, Order::Little));
        }
        let layout: LovMd = check_example(&bytes);
        assert_eq!(layout.objects, []);
        assert_eq!(layout.places().iter().map(|place| place.ost).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn a_layout_may_name_a_pool() {
        let mut bytes = hex(CREATED);
        bytes[2] = 0xd3;
        bytes.splice(32..32, *b"flash\0\0\0\0\0\0\0\0\0\0\0");
        let layout: LovMd = check_example(&bytes);
        assert_eq!((layout.pool, layout.objects.len()), (Text::new("flash"), 1));
        bytes[2] = 0xd9;
        let error = LovMd::decode(&bytes, Order::Little);
        assert_eq!(error, Err(DecodeError::Magic { got: 0x0bd9_0bd0 }));
        check_any::<LovMd>(&[]);
    }
}
