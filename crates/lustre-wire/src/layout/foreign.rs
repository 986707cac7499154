//! Layouts of files and directories whose data is outside Lustre.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

use super::LayoutMagic;
use crate::{Bytes, Content};

/// A value that only another system understands: 16 bytes and the value. Little-endian from every
/// peer. Spec: mdt-ost §11.2.
#[doc(alias = "lov_foreign_md")]
#[doc(alias = "lmv_foreign_md")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ForeignMd {
    /// `LOV_FOREIGN` or `LMV_FOREIGN`.
    pub magic: LayoutMagic,
    pub kind: u32,
    pub flags: u32,
    pub value: Bytes,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl Content for ForeignMd {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let magic = LayoutMagic::read(r, "ForeignMd.magic")?;
        if !matches!(magic, LayoutMagic::LOV_FOREIGN | LayoutMagic::LMV_FOREIGN) {
            return Err(DecodeError::Magic { got: magic.0 });
        }
        let len = r.u32("ForeignMd.len")? as usize;
        let kind = r.u32("ForeignMd.kind")?;
        let flags = r.u32("ForeignMd.flags")?;
        let value = Bytes(r.take("ForeignMd.value", len)?.to_vec());
        Ok(Self { magic, kind, flags, value, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        self.magic.write(w);
        w.u32(self.value.0.len() as u32);
        w.u32(self.kind);
        w.u32(self.flags);
        w.bytes(&self.value.0);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::check_example;

    #[test]
    fn a_foreign_layout_has_a_value_and_room() {
        let bytes = hex("d0 0b d7 0b 03 00 00 00 01 00 00 00 02 00 00 00 61 62 63 00 00");
        let layout: ForeignMd = check_example(&bytes);
        assert_eq!((layout.kind, layout.flags, layout.value.0.as_slice()), (1, 2, &b"abc"[..]));
        let error = ForeignMd::decode(&bytes[..18], Order::Little);
        assert_eq!(error, Err(DecodeError::Short { field: "ForeignMd.value", missing: 1 }));
    }
}
