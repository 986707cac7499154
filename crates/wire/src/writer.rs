//! Appends scalars to a message.

use crate::Order;

/// Appends scalars in one byte order to a vector.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    order: Order,
}

impl<'a> Writer<'a> {
    /// Returns a writer that appends to `out` in `order`.
    pub fn new(out: &'a mut Vec<u8>, order: Order) -> Self {
        Self { out, order }
    }

    /// Returns a writer that appends to the same vector in another order.
    pub fn in_order(&mut self, order: Order) -> Writer<'_> {
        Writer { out: self.out, order }
    }

    /// Appends bytes unchanged.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends `len` zero bytes.
    pub fn zeros(&mut self, len: usize) {
        self.out.resize(self.out.len() + len, 0);
    }

    /// Appends one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Appends two bytes.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        match self.order {
            Order::Little => self.bytes(&value.to_le_bytes()),
            Order::Big => self.bytes(&value.to_be_bytes()),
        }
    }

    /// Appends four bytes.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        match self.order {
            Order::Little => self.bytes(&value.to_le_bytes()),
            Order::Big => self.bytes(&value.to_be_bytes()),
        }
    }

    /// Appends eight bytes.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        match self.order {
            Order::Little => self.bytes(&value.to_le_bytes()),
            Order::Big => self.bytes(&value.to_be_bytes()),
        }
    }
}
