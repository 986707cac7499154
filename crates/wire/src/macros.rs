//! Macros that declare the numbers and the structures of a protocol.

/// Declares a number on the wire and the names of its known values.
///
/// The result is a newtype and not an enum: a node must decode, log and answer a value that it does
/// not know. It serialises as its name, or in hexadecimal (`"0x7"`) if it has none.
///
/// ```
/// fulmar_wire::wire_enum! {
///     /// What a message is.
///     pub struct Kind(u32) {
///         /// Nothing follows.
///         NOOP = 0xc0,
///         /// An LNet message follows.
///         LNET = 0xc1,
///     }
/// }
/// assert_eq!(format!("{:?} {:?}", Kind::LNET, Kind(7)), "LNET Kind(0x7)");
/// ```
#[macro_export]
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident($repr:ty) {
            $( $(#[$value_meta:meta])* $value:ident = $number:expr ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(pub $repr);

        #[allow(unreachable_pub)]
        impl $name {
            $( $(#[$value_meta])* pub const $value: Self = Self($number); )+

            /// The named values, in the order of the specification.
            pub const KNOWN: &'static [Self] = &[$(Self::$value),+];

            /// Returns the name of a known value.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$value => Some(stringify!($value)), )+
                    _ => None,
                }
            }
        }

        impl $crate::Field for $name {
            fn read(
                r: &mut $crate::Reader<'_>,
                name: &'static str,
            ) -> ::core::result::Result<Self, $crate::DecodeError> {
                $crate::Field::read(r, name).map(Self)
            }

            fn write(&self, w: &mut $crate::Writer<'_>) {
                $crate::Field::write(&self.0, w);
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                match self.name() {
                    Some(name) => serializer.serialize_str(name),
                    None => serializer.collect_str(&format_args!("{:#x}", self.0)),
                }
            }
        }
    };
}

/// Declares a set of bits on the wire and the names of its known bits.
///
/// Unknown bits are kept. The set prints as `A|B|0x100`, an empty one as `0`; it serialises as the
/// list of these parts. The names of the protocol need no further docs where they say enough.
///
/// ```
/// fulmar_wire::wire_flags! {
///     /// What a peer asks for.
///     pub struct Wants(u32) {
///         SIZE = 0x1,
///         TIME = 0x2,
///     }
/// }
/// let wants = Wants::SIZE | Wants::TIME | Wants(0x100);
/// assert!(wants.has(Wants::SIZE) && !Wants::SIZE.has(wants));
/// assert_eq!(wants.without(Wants::TIME).to_string(), "SIZE|0x100");
/// assert_eq!(Wants::default().to_string(), "0");
/// ```
#[macro_export]
macro_rules! wire_flags {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident($repr:ty) {
            $( $(#[$bit_meta:meta])* $bit:ident = $number:expr ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(pub $repr);

        #[allow(missing_docs, unreachable_pub)]
        impl $name {
            $( $(#[$bit_meta])* pub const $bit: Self = Self($number); )+

            /// The named bits and their names, in the order of the specification.
            pub const KNOWN: &'static [(Self, &'static str)] =
                &[$((Self::$bit, stringify!($bit))),+];

            /// No bit.
            pub const NONE: Self = Self(0);

            /// Returns whether every bit of `other` is set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the set with the bits of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Returns the set without the bits of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Returns the known bits that are set, each with its name.
            pub fn known(self) -> impl Iterator<Item = (Self, &'static str)> {
                Self::KNOWN.iter().copied().filter(move |(bit, _)| self.has(*bit))
            }

            /// Returns the bits that have no name.
            #[must_use]
            pub fn unknown(self) -> Self {
                self.known().fold(self, |rest, (bit, _)| rest.without(bit))
            }
        }

        impl ::core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl $crate::Field for $name {
            fn read(
                r: &mut $crate::Reader<'_>,
                name: &'static str,
            ) -> ::core::result::Result<Self, $crate::DecodeError> {
                $crate::Field::read(r, name).map(Self)
            }

            fn write(&self, w: &mut $crate::Writer<'_>) {
                $crate::Field::write(&self.0, w);
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                if self.0 == 0 {
                    return f.write_str("0");
                }
                let mut separator = "";
                for (_, name) in self.known() {
                    write!(f, "{separator}{name}")?;
                    separator = "|";
                }
                match self.unknown().0 {
                    0 => Ok(()),
                    rest => write!(f, "{separator}{rest:#x}"),
                }
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                let unknown = self.unknown().0;
                let rest = (unknown != 0).then(|| format!("{unknown:#x}"));
                let names = self.known().map(|(_, name)| name.to_owned());
                serializer.collect_seq(names.chain(rest))
            }
        }
    };
}

/// Declares a structure whose fields follow each other on the wire without padding.
///
/// ```
/// use fulmar_wire::{Field, Order, Reader, wire_struct};
///
/// wire_struct! {
///     /// A point.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub struct Point {
///         /// To the right.
///         pub x: u16,
///         /// Upwards.
///         pub y: u32,
///     }
/// }
/// let mut r = Reader::new(&[1, 0, 2, 0, 0, 0], Order::Little);
/// assert_eq!(Point::read(&mut r, "point"), Ok(Point { x: 1, y: 2 }));
/// ```
#[macro_export]
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )+
        }

        impl $crate::Field for $name {
            fn read(
                r: &mut $crate::Reader<'_>,
                _: &'static str,
            ) -> ::core::result::Result<Self, $crate::DecodeError> {
                ::core::result::Result::Ok(Self { $(
                    $field: $crate::Field::read(
                        r,
                        concat!(stringify!($name), ".", stringify!($field)),
                    )?,
                )+ })
            }

            fn write(&self, w: &mut $crate::Writer<'_>) {
                $( $crate::Field::write(&self.$field, w); )+
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::testing::round_trip;
    use crate::{Field, Order, Reader, Writer};

    wire_enum! {
        /// A kind.
        struct Kind(u16) {
            /// The first.
            FIRST = 1,
        }
    }

    wire_flags! {
        /// Some bits.
        struct Bits(u32) {
            ONE = 0x1,
            TOP = 0x8000_0000,
        }
    }

    #[test]
    fn a_set_of_bits_keeps_unknown_bits() {
        let decode = |bytes: &[u8]| Bits::read(&mut Reader::new(bytes, Order::Little), "bits");
        let encode = |bits: &Bits, out: &mut Vec<u8>| {
            bits.write(&mut Writer::new(out, Order::Little));
        };
        let bits = round_trip(&[0x05, 0x00, 0x00, 0x80], decode, encode);
        assert_eq!((bits.to_string(), bits.unknown()), ("ONE|TOP|0x4".to_owned(), Bits(4)));
        assert_eq!(bits.known().map(|(bit, _)| bit).collect::<Vec<_>>(), [Bits::ONE, Bits::TOP]);
        let again = Bits::NONE.with(Bits::ONE) | Bits::TOP | Bits(4);
        assert_eq!(format!("{again:?}"), bits.to_string());
    }

    #[test]
    fn numbers_serialise_as_their_names() {
        assert_eq!(Kind::KNOWN, [Kind::FIRST]);
        let kinds = serde_json::json!([Kind::FIRST, Kind(0x20)]);
        assert_eq!(kinds, serde_json::json!(["FIRST", "0x20"]));
        let bits = serde_json::json!([Bits::TOP | Bits(6), Bits::default()]);
        assert_eq!(bits, serde_json::json!([["TOP", "0x6"], []]));
    }
}
