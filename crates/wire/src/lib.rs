//! Bytes to values and back: [`Reader`], [`Writer`], [`Order`], [`DecodeError`], [`Field`],
//! [`wire_enum!`], [`wire_flags!`] and [`wire_struct!`].
//!
//! Pure: bytes in, values out. These functions do not panic, whatever a peer sends.
//!
//! ```text
//! wire_enum!     the numbers of a protocol: a newtype with named values; an unknown one is kept, printed and
//!                encoded again
//! wire_flags!    the same for bits
//! wire_struct!   a structure whose fields follow each other: one list reads and writes them
//! ```
//!
//! A [`Reader`] has the byte order of the sender, checks each length before it reads, and names the
//! field in its errors. [`testing::round_trip`] requires that a value decodes to itself and encodes
//! to the same bytes. The structures are in the crates `lnet-wire` and `lustre-wire`: no other
//! crate has byte offsets.
#![forbid(unsafe_code)]

mod error;
mod field;
mod macros;
mod order;
mod reader;
pub mod testing;
mod writer;

/// For the macros.
#[doc(hidden)]
pub use serde;

pub use error::DecodeError;
pub use field::Field;
pub use order::Order;
pub use reader::Reader;
pub use writer::Writer;
