//! Macros that declare the numbers and the structures of a protocol.

/// Declares a number on the wire and the names of its known values.
///
/// The result is a newtype and not an enum: a node must decode, log and answer a value that it does
/// not know.
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
