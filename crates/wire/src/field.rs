//! Values that follow each other in a message.

use crate::{DecodeError, Reader, Writer};

/// A value of fixed size in a message, read and written in the byte order of the peer.
pub trait Field: Sized {
    /// Reads the value; errors carry `name`.
    ///
    /// # Errors
    /// If bytes are missing, or the value is not valid for this type.
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError>;

    /// Writes the value.
    fn write(&self, w: &mut Writer<'_>);
}

macro_rules! integers {
    ($($int:ident as $method:ident),+) => { $(
        impl Field for $int {
            fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                Ok(r.$method(name)? as $int)
            }

            fn write(&self, w: &mut Writer<'_>) {
                w.$method(*self as _);
            }
        }
    )+ };
}

integers!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i32 as u32, i64 as u64);

impl<const N: usize> Field for [u8; N] {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.array(name)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(self);
    }
}

macro_rules! arrays {
    ($($int:ident),+) => { $(
        impl<const N: usize> Field for [$int; N] {
            fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                let mut values = [0; N];
                for value in &mut values {
                    *value = r.$int(name)?;
                }
                Ok(values)
            }

            fn write(&self, w: &mut Writer<'_>) {
                for value in self {
                    w.$int(*value);
                }
            }
        }
    )+ };
}

arrays!(u16, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, wire_struct};

    wire_struct! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct Pair {
            kind: u16,
            stamp: i64,
        }
    }

    wire_struct! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct Everything {
            byte: u8,
            pair: Pair,
            word: u32,
            long: u64,
            name: [u8; 3],
            counts: [u32; 2],
        }
    }

    const VALUE: Everything = Everything {
        byte: 1,
        pair: Pair { kind: 0x0203, stamp: -2 },
        word: 0x0405_0607,
        long: 0x0809_0a0b_0c0d_0e0f,
        name: *b"abc",
        counts: [1, 0x1011_1213],
    };

    fn written(order: Order) -> Vec<u8> {
        let mut bytes = Vec::new();
        VALUE.write(&mut Writer::new(&mut bytes, order));
        bytes
    }

    #[test]
    fn fields_follow_each_other_in_the_byte_order_of_the_peer() {
        let little = "01 0302 feffffffffffffff 07060504 0f0e0d0c0b0a0908 616263 01000000 13121110";
        let big = "01 0203 fffffffffffffffe 04050607 08090a0b0c0d0e0f 616263 00000001 10111213";
        for (order, text) in [(Order::Little, little), (Order::Big, big)] {
            let bytes = crate::testing::hex(text);
            assert_eq!(written(order), bytes);
            let mut r = Reader::new(&bytes, order);
            assert_eq!(Everything::read(&mut r, "value"), Ok(VALUE));
            assert_eq!(r.finish("value"), Ok(()));
        }
    }

    #[test]
    fn an_error_for_missing_bytes_names_the_innermost_field() {
        let bytes = written(Order::Little);
        let field = |len: usize| {
            let mut r = Reader::new(&bytes[..len], Order::Little);
            match Everything::read(&mut r, "value") {
                Err(DecodeError::Short { field, missing }) => (field, missing),
                other => panic!("{len} bytes decode to {other:?}"),
            }
        };
        assert_eq!(field(0), ("Everything.byte", 1));
        assert_eq!(field(2), ("Pair.kind", 1));
        assert_eq!(field(5), ("Pair.stamp", 6));
        assert_eq!(field(23), ("Everything.name", 3));
        assert_eq!(field(33), ("Everything.counts", 1));
    }
}
