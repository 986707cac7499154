//! Handles.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Reader, Writer};

use crate::serial::as_text;

/// A cookie of 8 bytes by which one node names an object of another one: an export, a lock, an open
/// file. Only the node that issued it knows its meaning. Spec: ptlrpc-ldlm-mgs §1.3.
#[doc(alias = "lustre_handle")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

impl Handle {
    /// No object.
    pub const NONE: Self = Self(0);

    /// Returns whether there is no object.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl Field for Handle {
    /// Reads a cookie, which is in the same order from every peer.
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.array(name).map(u64::from_le_bytes).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0.to_le_bytes());
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

as_text!(Handle);
