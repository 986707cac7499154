//! The buffers of each operation: their order, and the type of each.
//!
//! A [`Format`] lists the buffers of a request and of its reply. Some operations have several
//! formats: the first buffers of the request determine which. A [`FieldOf`] names a buffer and its
//! type, wherever it is in a message.
//! Spec: ptlrpc-ldlm-mgs §11.
//!
//! A message may end before the last buffer of its format, and may have more buffers, from a newer
//! peer. An empty buffer has no value.

mod bulk;
mod field;
mod fields;
mod ldlm;
mod mdt;
mod other;
mod select;
#[cfg(test)]
mod tests;

use std::fmt;

pub use bulk::BatchRequests;
pub use field::{Buffer, FieldOf};
pub use fields::*;
pub use ldlm::*;
pub use mdt::*;
pub use other::*;

use crate::Opcode;

/// The buffers after the body, of a request and of its reply.
pub struct Format {
    /// The operation.
    pub opcode: Opcode,
    /// What distinguishes it from other formats of the operation, such as `OPEN`.
    pub variant: Option<&'static str>,
    /// The buffers of a request.
    pub request: &'static [&'static dyn Buffer],
    /// The buffers of a reply.
    pub reply: &'static [&'static dyn Buffer],
}

impl Format {
    /// Declares the only format of an operation.
    const fn new(
        opcode: Opcode,
        request: &'static [&'static dyn Buffer],
        reply: &'static [&'static dyn Buffer],
    ) -> Self {
        Self { opcode, variant: None, request, reply }
    }

    /// Returns the first buffer of requests, if servers take it from them before the operation does.
    pub(crate) fn main_buffer(&self) -> Option<&'static dyn Buffer> {
        let first = self.request.first().copied()?;
        // Clients before 2.14 ask for the state of a metadata target without a body.
        let is_optional = self.opcode == Opcode::MDS_STATFS;
        let mains = [MDT_BODY.name(), OST_BODY.name(), LOCK_REQUEST.name()];
        Some(first).filter(|first| !is_optional && mains.contains(&first.name()))
    }

    /// Names one of several formats of an operation.
    const fn variant(self, name: &'static str) -> Self {
        Self { variant: Some(name), ..self }
    }
}

impl fmt::Display for Format {
    /// Writes the operation and the variant: `LDLM_ENQUEUE OPEN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.opcode)?;
        self.variant.map_or(Ok(()), |variant| write!(f, " {variant}"))
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        (self.opcode, self.variant) == (other.opcode, other.variant)
    }
}

impl Eq for Format {}
