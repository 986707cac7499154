//! What a buffer of a message contains.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

/// The content of a buffer.
///
/// A structure of fixed size is a [`Field`], and a buffer may be longer than it: a newer peer may
/// have appended to the structure. A structure of variable size implements this trait itself; it
/// fills its buffer. Every value encodes to the bytes that it was decoded from.
/// Spec: mdt-ost §1.2.
pub trait Content: Sized {
    /// Decodes a buffer of a peer that writes scalars in `order`. Structures that are little-endian
    /// from every peer ignore `order`.
    ///
    /// # Errors
    /// If the buffer is too short, or not what it should be.
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError>;

    /// Appends the content of the buffer.
    fn encode(&self, w: &mut Writer<'_>);

    /// Returns the buffer in little-endian order, which this node sends.
    fn to_bytes(&self) -> Vec<u8> {
        // Most buffers fit, such as those of lock requests.
        let mut bytes = Vec::with_capacity(128);
        self.encode(&mut Writer::new(&mut bytes, Order::Little));
        bytes
    }
}

impl<T: Field> Content for T {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        Self::read(&mut Reader::new(bytes, order), "buffer")
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.write(w);
    }
}

/// A buffer that is an array: its length is a multiple of the size of an element.
/// Spec: mdt-ost §1.2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct List<T>(pub Vec<T>);

impl<T: Field> Content for List<T> {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        read_rest(&mut Reader::new(bytes, order), "list").map(Self)
    }

    fn encode(&self, w: &mut Writer<'_>) {
        write_all(&self.0, w);
    }
}

/// Requires that `magic` is next.
pub(crate) fn expect_magic(
    r: &mut Reader<'_>,
    magic: u32,
    name: &'static str,
) -> Result<(), DecodeError> {
    match r.u32(name)? {
        got if got == magic => Ok(()),
        got => Err(DecodeError::Magic { got }),
    }
}

/// Reads values to the end of `r`.
pub(crate) fn read_rest<T: Field>(
    r: &mut Reader<'_>,
    name: &'static str,
) -> Result<Vec<T>, DecodeError> {
    let mut values = Vec::new();
    while !r.rest().is_empty() {
        values.push(T::read(r, name)?);
    }
    Ok(values)
}

/// Reads `count` values, however many a peer claims: memory grows only with what was read.
pub(crate) fn read_count<T: Field>(
    r: &mut Reader<'_>,
    count: usize,
    name: &'static str,
) -> Result<Vec<T>, DecodeError> {
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(T::read(r, name)?);
    }
    Ok(values)
}

/// Writes values one after the other.
pub(crate) fn write_all<T: Field>(values: &[T], w: &mut Writer<'_>) {
    for value in values {
        value.write(w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fid;
    use crate::testing::check_any;

    #[test]
    fn a_list_fills_its_buffer() {
        check_any::<List<u32>>(&[1, 0, 0, 0, 2, 0, 0, 0]);
        let error = List::<u32>::decode(&[1, 0, 0, 0, 2], Order::Little).unwrap_err();
        assert_eq!(error, DecodeError::Short { field: "list", missing: 3 });
        assert_eq!(List::<Fid>::decode(&[], Order::Little), Ok(List::default()));
    }

    #[test]
    fn a_structure_may_be_followed_by_what_a_newer_peer_appends() {
        let fid = Fid { seq: 1, oid: 2, version: 0 };
        let mut bytes = fid.to_bytes();
        bytes.push(9);
        assert_eq!(Fid::decode(&bytes, Order::Little), Ok(fid));
    }
}
