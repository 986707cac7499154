//! Checks that every structure must pass.

use std::fmt::Debug;

use fulmar_wire::{Order, Writer};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::Content;

const ORDERS: [Order; 2] = [Order::Little, Order::Big];

/// The helpers are shared by many files, and failures are not recorded beside this one.
fn runner() -> TestRunner {
    TestRunner::new(Config { failure_persistence: None, ..Config::default() })
}

/// Encodes a value in `order`.
pub(crate) fn encoded(value: &impl Content, order: Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Writer::new(&mut bytes, order));
    bytes
}

/// Requires of a structure of `size` bytes that any bytes encode again to themselves, in both
/// orders, and that fewer bytes are an error.
pub(crate) fn check_fixed<T: Content + Debug + PartialEq>(size: usize) {
    let name = std::any::type_name::<T>();
    let test = |bytes: Vec<u8>| {
        for order in ORDERS {
            let value = T::decode(&bytes, order).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(encoded(&value, order), bytes, "{name} in {order:?} order");
        }
        Ok(())
    };
    runner().run(&vec(any::<u8>(), size), test).unwrap_or_else(|e| panic!("{e}"));
    let zeros = vec![0; size];
    for len in 0..size {
        assert!(T::decode(&zeros[..len], Order::Little).is_err(), "{name} in {len} bytes");
    }
}

/// Requires that `bytes` of a real node decode, and encode again to themselves; then what
/// [`check_any`] requires. Returns the value.
pub(crate) fn check_example<T: Content + Debug + PartialEq>(bytes: &[u8]) -> T {
    let value = T::decode(bytes, Order::Little).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(value.to_bytes(), bytes, "{value:?}");
    let big = encoded(&value, Order::Big);
    assert_eq!(T::decode(&big, Order::Big).as_ref(), Ok(&value));
    check_any::<T>(bytes);
    value
}

/// Requires that no bytes make the decoder panic, neither arbitrary ones nor `example` damaged or
/// cut off, and that those that decode encode again to themselves.
pub(crate) fn check_any<T: Content + Debug + PartialEq>(example: &[u8]) {
    let name = std::any::type_name::<T>();
    let check = |bytes: &[u8]| {
        for order in ORDERS {
            if let Ok(value) = T::decode(bytes, order) {
                let len = bytes.len();
                let again = encoded(&value, order);
                // Only bytes behind a structure of fixed size are not kept.
                assert_eq!(again, bytes[..again.len().min(len)], "{name}: {value:?}");
            }
        }
    };
    (0..=example.len()).for_each(|len| check(&example[..len]));
    let damage = vec((any::<Index>(), any::<u8>()), 1..6);
    let strategy = (vec(any::<u8>(), 0..300), damage);
    let test = |(bytes, damage): (Vec<u8>, Vec<(Index, u8)>)| {
        check(&bytes);
        let mut damaged = example.to_vec();
        for (place, byte) in damage.iter().filter(|_| !example.is_empty()) {
            damaged[place.index(example.len())] = *byte;
        }
        check(&damaged);
        damaged.extend(bytes);
        check(&damaged);
        Ok(())
    };
    runner().run(&strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

/// Declares a test that checks structures of fixed size against the sizes of the specification.
macro_rules! sizes {
    ($($name:ty = $size:literal),+ $(,)?) => {
        #[test]
        fn structures_have_their_sizes_and_keep_every_byte() {
            $( $crate::testing::check_fixed::<$name>($size); )+
        }
    };
}

pub(crate) use sizes;
