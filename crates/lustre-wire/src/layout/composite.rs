//! Layouts of several components: PFL, mirrors, data on the MDT, components that extend.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::{Serialize, Serializer};

use super::{LayoutMagic, LovMd};
use crate::content::{read_count, write_all};
use crate::{Bytes, Content, Padding};

wire_enum! {
    /// Whether the mirrors of a file are equal. Spec: mdt-ost §11.2.
    #[doc(alias = "LCM_FL")]
    #[derive(Default)]
    pub struct MirrorState(u16) {
        /// There are none.
        NONE = 0,
        /// They are equal.
        RDONLY = 1,
        /// One was written.
        WRITE_PENDING = 2,
        /// They are being made equal.
        SYNC_PENDING = 3,
        /// A client caches the file to read it.
        PCC_RDONLY = 8,
    }
}

wire_flags! {
    /// The state of a component. Spec: mdt-ost §11.2.
    #[doc(alias = "LCME_FL")]
    pub struct ComponentFlags(u32) {
        /// Its data is older than that of another mirror.
        STALE = 0x1,
        PREF_RD = 0x2,
        PREF_WR = 0x4,
        OFFLINE = 0x8,
        /// Its objects exist.
        INIT = 0x10,
        NOSYNC = 0x20,
        /// It extends the component before it.
        EXTENSION = 0x40,
        PARITY = 0x80,
        COMPRESS = 0x100,
        PARTIAL = 0x200,
        NOCOMPR = 0x400,
        IS_LINK_ID = 0x4000_0000,
        /// In requests: the flags to clear.
        NEG = 0x8000_0000,
    }
}

wire_struct! {
    /// The head of a composite layout: 32 bytes. Spec: mdt-ost §11.2.
    #[doc(alias = "lov_comp_md_v1")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct CompositeHeader {
        pub magic: LayoutMagic,
        /// The bytes of the whole layout.
        pub size: u32,
        pub generation: u32,
        pub state: MirrorState,
        pub components: u16,
        /// The number of mirrors less one.
        pub more_mirrors: u16,
        pub ec_count: u8,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<13>,
    }
}

wire_struct! {
    /// A component: 48 bytes. Spec: mdt-ost §11.2.
    #[doc(alias = "lov_comp_md_entry_v1")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Component {
        /// Its number; bits 16 to 30 are the [mirror](Component::mirror).
        pub id: u32,
        pub flags: ComponentFlags,
        pub start: u64,
        /// The byte after the last one; `u64::MAX` without an end.
        pub end: u64,
        /// Where its layout is, from the start of the composite one.
        pub offset: u32,
        /// The bytes of its layout.
        pub size: u32,
        pub generation: u32,
        /// The time of the last resynchronisation, 48 bits, and an id, 16 bits.
        pub time_and_id: u64,
        /// The data stripes of erasure coding.
        pub data_stripes: u8,
        /// The parity stripes of erasure coding.
        pub parity_stripes: u8,
        pub compression: u8,
        /// The level of the compression and the size of its chunks.
        pub compression_level: u8,
    }
}

impl CompositeHeader {
    /// Returns the head of a layout of this generation with one mirror. [`CompositeMd::new`] counts.
    pub fn new(generation: u32) -> Self {
        Self {
            magic: LayoutMagic::LOV_COMPOSITE,
            size: 0,
            generation,
            state: MirrorState::NONE,
            components: 0,
            more_mirrors: 0,
            ec_count: 0,
            padding: Padding::default(),
        }
    }
}

impl Component {
    /// Returns the number of its mirror.
    pub fn mirror(&self) -> u16 {
        (self.id >> 16 & 0x7fff) as u16
    }
}

/// A layout of several components. Little-endian from every peer. Spec: mdt-ost §11.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeMd {
    /// The head.
    pub header: CompositeHeader,
    /// The components, of one mirror after the other.
    pub components: Vec<Component>,
    /// The layouts of the components, where their offsets say, and unused room.
    pub layouts: Bytes,
}

impl CompositeMd {
    /// Returns the layout of components, each with its own layout, one after the other.
    pub fn new(mut header: CompositeHeader, parts: Vec<(Component, LovMd)>) -> Self {
        let mut layouts = Vec::new();
        let start = Self::HEADER_LEN + Self::COMPONENT_LEN * parts.len();
        let place = |(component, layout): (Component, LovMd)| {
            let offset = (start + layouts.len()) as u32;
            let bytes = layout.to_bytes();
            layouts.extend(&bytes);
            Component { offset, size: bytes.len() as u32, ..component }
        };
        let components: Vec<_> = parts.into_iter().map(place).collect();
        header.components = components.len() as u16;
        header.size = (start + layouts.len()) as u32;
        Self { header, components, layouts: Bytes(layouts) }
    }

    const HEADER_LEN: usize = 32;
    const COMPONENT_LEN: usize = 48;

    /// Returns the layout of a component.
    ///
    /// # Errors
    /// If it is outside the composite layout, or damaged.
    pub fn layout(&self, component: &Component) -> Result<LovMd, DecodeError> {
        let before = Self::HEADER_LEN + Self::COMPONENT_LEN * self.components.len();
        let field = "CompositeMd.component_offset";
        let range = DecodeError::Range { field, got: component.offset.into() };
        let start = (component.offset as usize).checked_sub(before).ok_or(range)?;
        let r = &mut Reader::new(&self.layouts.0, Order::Little);
        r.take(field, start)?;
        let bytes = r.take("CompositeMd.component_layout", component.size as usize)?;
        LovMd::decode(bytes, Order::Little)
    }
}

impl CompositeMd {
    /// Returns the layouts of the components whose objects exist.
    pub fn initialised(&self) -> Vec<LovMd> {
        let has_objects = |component: &&Component| component.flags.has(ComponentFlags::INIT);
        let components = self.components.iter().filter(has_objects);
        components.filter_map(|component| self.layout(component).ok()).collect()
    }
}

impl Content for CompositeMd {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let header = CompositeHeader::read(r, "CompositeMd.header")?;
        if !matches!(header.magic, LayoutMagic::LOV_COMPOSITE | LayoutMagic::LOV_SEL) {
            return Err(DecodeError::Magic { got: header.magic.0 });
        }
        let components = read_count(r, header.components.into(), "CompositeMd.components")?;
        Ok(Self { header, components, layouts: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        self.header.write(w);
        write_all(&self.components, w);
        w.bytes(&self.layouts.0);
    }
}

impl Serialize for CompositeMd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Part {
            #[serde(flatten)]
            component: Component,
            layout: Option<LovMd>,
        }
        #[derive(Serialize)]
        struct Shown {
            #[serde(flatten)]
            header: CompositeHeader,
            parts: Vec<Part>,
        }
        let part = |component: &Component| Part {
            component: *component,
            layout: self.layout(component).ok(),
        };
        let parts = self.components.iter().map(part).collect();
        Shown { header: self.header, parts }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LovHeader, Pattern};
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { CompositeHeader = 32, Component = 48 }

    fn plain(pattern: Pattern, stripe_size: u32, rest: usize) -> LovMd {
        let header = LovHeader {
            magic: LayoutMagic::LOV_V1,
            pattern,
            object: 3,
            seq: 0x2_0000_0401,
            stripe_size,
            stripe_count: 0,
            generation: 0xffff,
        };
        LovMd { header, pool: None, objects: vec![], rest: Bytes(vec![0xff; rest]) }
    }

    fn composite() -> CompositeMd {
        let header = CompositeHeader::new(2);
        let on_mdt = Component {
            id: 0x1_0001,
            flags: ComponentFlags::INIT,
            end: 1 << 20,
            ..Default::default()
        };
        let on_ost =
            Component { id: 0x1_0002, start: 1 << 20, end: u64::MAX, ..Default::default() };
        let parts = vec![
            (on_mdt, plain(Pattern::MDT, 1 << 20, 0)),
            (on_ost, plain(Pattern::RAID0, 4 << 20, 24)),
        ];
        CompositeMd::new(header, parts)
    }

    #[test]
    fn each_component_has_a_layout() {
        let composite = composite();
        let bytes = composite.to_bytes();
        assert_eq!(bytes.len(), 32 + 2 * 48 + 32 + 56);
        assert_eq!(check_example::<CompositeMd>(&bytes), composite);
        let [on_mdt, on_ost] = composite.components.as_slice() else { panic!("{composite:?}") };
        assert_eq!((on_mdt.offset, on_ost.offset, on_ost.size), (128, 160, 56));
        assert_eq!(composite.layout(on_mdt), Ok(plain(Pattern::MDT, 1 << 20, 0)));
        assert_eq!(composite.layout(on_ost), Ok(plain(Pattern::RAID0, 4 << 20, 24)));
        assert_eq!(on_ost.mirror(), 1);
    }

    #[test]
    fn an_offset_outside_the_layout_is_an_error() {
        let composite = composite();
        for (offset, size) in [(127, 32), (u32::MAX, 32), (128, u32::MAX), (200, 32)] {
            let component = Component { offset, size, ..Default::default() };
            assert!(composite.layout(&component).is_err(), "{offset} {size}");
        }
    }

    #[test]
    fn a_component_serialises_with_its_layout() {
        let json = serde_json::json!(composite());
        assert_eq!(json["parts"][0]["layout"]["pattern"], serde_json::json!(["MDT"]));
        assert_eq!((&json["size"], &json["state"]), (&216.into(), &"NONE".into()));
    }
}
