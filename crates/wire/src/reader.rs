//! A cursor over received bytes.

use crate::{DecodeError, Order};

/// Reads scalars from the front of a byte slice. Every read names its field, for errors.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, whose scalars are in `order`.
    pub fn new(bytes: &'a [u8], order: Order) -> Self {
        Self { bytes, order }
    }

    /// Returns a reader of the same bytes in another order.
    #[must_use]
    pub fn in_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Returns the byte order of the scalars.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the next `len` bytes.
    #[inline]
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            return Err(DecodeError::Short { field, missing: len - self.bytes.len() });
        };
        self.bytes = rest;
        Ok(taken)
    }

    /// Returns the next `N` bytes unchanged.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(DecodeError::Short { field, missing: N - self.bytes.len() });
        };
        self.bytes = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        let [byte] = self.array(field)?;
        Ok(byte)
    }

    /// Reads two bytes.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        let bytes = self.array(field)?;
        Ok(match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        })
    }

    /// Reads four bytes.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let bytes = self.array(field)?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    /// Reads eight bytes.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let bytes = self.array(field)?;
        Ok(match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    /// Returns a reader that is limited to the next `len` bytes.
    pub fn sub(&mut self, field: &'static str, len: usize) -> Result<Self, DecodeError> {
        Ok(Self { bytes: self.take(field, len)?, order: self.order })
    }

    /// Requires that all bytes of `message` were read.
    pub fn finish(self, message: &'static str) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            got => Err(DecodeError::Trailing { message, got }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_follow_the_order_and_errors_name_the_field() {
        let bytes = [1, 2, 3, 4, 5, 6, 7];
        let mut little = Reader::new(&bytes, Order::Little);
        let mut big = little.in_order(Order::Big);
        assert_eq!(little.u32("a"), Ok(0x0403_0201));
        assert_eq!(big.u32("a"), Ok(0x0102_0304));
        assert_eq!(big.u16("b"), Ok(0x0506));
        assert_eq!(little.u64("c"), Err(DecodeError::Short { field: "c", missing: 5 }));
        assert_eq!(big.finish("m"), Err(DecodeError::Trailing { message: "m", got: 1 }));
    }

    #[test]
    fn a_child_cannot_read_past_its_bounds() {
        let mut parent = Reader::new(&[1, 2, 3], Order::Little);
        let mut child = parent.sub("child", 2).unwrap();
        assert_eq!(child.take("x", 3), Err(DecodeError::Short { field: "x", missing: 1 }));
        assert_eq!(parent.u8("last"), Ok(3));
    }
}
