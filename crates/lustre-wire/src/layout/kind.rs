//! The kinds of layouts.

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum};
use serde::Serialize;

use super::{CompositeMd, ForeignMd, LmvMd, LmvUserMd, LovMd};
use crate::{Bytes, Content};

wire_enum! {
    /// The first word of a layout. Spec: mdt-ost §11.1, §11.2, §12.1.
    pub struct LayoutMagic(u32) {
        /// Stripes over OSTs.
        LOV_V1 = 0x0bd1_0bd0,
        /// Joined files, of old releases.
        LOV_JOIN = 0x0bd2_0bd0,
        /// Stripes over OSTs of a pool.
        LOV_V3 = 0x0bd3_0bd0,
        /// Stripes of a file that moves.
        LOV_MIGRATE = 0x0bd4_0bd0,
        /// A request for stripes over certain OSTs.
        LOV_SPECIFIC = 0x0bd5_0bd0,
        /// Several components.
        LOV_COMPOSITE = 0x0bd6_0bd0,
        /// Data outside Lustre.
        LOV_FOREIGN = 0x0bd7_0bd0,
        /// Several components that extend themselves.
        LOV_SEL = 0x0bd8_0bd0,
        /// A striped directory.
        LMV_V1 = 0x0cd2_0cd0,
        /// A request for, or a default of, a striped directory.
        LMV_USER = 0x0cd3_0cd0,
        /// A stripe of a directory; in requests, stripes on certain MDTs.
        LMV_STRIPE = 0x0cd4_0cd0,
        /// A directory outside Lustre.
        LMV_FOREIGN = 0x0cd5_0cd0,
    }
}

/// A layout of any kind: what follows attributes in replies, and the layout that a client wants.
///
/// The user form of a striped directory on certain MDTs has the magic of a stripe; it is decoded
/// with [`LmvUserMd`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Layout {
    File(LovMd),
    Composite(CompositeMd),
    Foreign(ForeignMd),
    Directory(LmvMd),
    DirectoryDefault(LmvUserMd),
    /// No layout: nothing, zeros, the target of a symlink, or an unknown magic.
    Other(Bytes),
}

impl Content for Layout {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let magic = Reader::new(bytes, Order::Little).u32("layout.magic").unwrap_or_default();
        type M = LayoutMagic;
        Ok(match LayoutMagic(magic) {
            M::LOV_V1 | M::LOV_V3 | M::LOV_SPECIFIC => Self::File(Content::decode(bytes, order)?),
            M::LOV_COMPOSITE | M::LOV_SEL => Self::Composite(Content::decode(bytes, order)?),
            M::LOV_FOREIGN | M::LMV_FOREIGN => Self::Foreign(Content::decode(bytes, order)?),
            M::LMV_V1 | M::LMV_STRIPE => Self::Directory(Content::decode(bytes, order)?),
            M::LMV_USER => Self::DirectoryDefault(Content::decode(bytes, order)?),
            _ => Self::Other(Bytes(bytes.to_vec())),
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::File(layout) => layout.encode(w),
            Self::Composite(layout) => layout.encode(w),
            Self::Foreign(layout) => layout.encode(w),
            Self::Directory(layout) => layout.encode(w),
            Self::DirectoryDefault(layout) => layout.encode(w),
            Self::Other(bytes) => bytes.encode(w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    #[test]
    fn what_is_no_layout_is_kept() {
        for bytes in [b"".as_slice(), b"../target\0", &[0; 48]] {
            assert_eq!(check_example::<Layout>(bytes), Layout::Other(Bytes(bytes.to_vec())));
        }
    }

    #[test]
    fn every_magic_is_decoded_by_its_kind() {
        for magic in LayoutMagic::KNOWN {
            let mut bytes = vec![0; 120];
            bytes[..4].copy_from_slice(&magic.0.to_le_bytes());
            check_any::<Layout>(&bytes);
        }
    }
}
