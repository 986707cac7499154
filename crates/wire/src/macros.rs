//! Declaring the numbers of a protocol.

/// Declares a number on the wire together with the names of its known values.
///
/// The result is a newtype and not an enum: a peer may send a value that we have never heard
/// of, and we must still decode it, log it and answer it.
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

            /// The values that have a name, in the order of the specification.
            pub const KNOWN: &'static [Self] = &[$(Self::$value),+];

            /// Returns the name of a known value.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$value => Some(stringify!($value)), )+
                    _ => None,
                }
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
