//! Bytes to values and back: [`Reader`], [`Writer`], [`Order`], [`DecodeError`], [`Field`],
//! [`wire_enum!`], [`wire_flags!`] and [`wire_struct!`].
//!
//! Pure: bytes in, values out. These functions do not panic, whatever a peer sends.
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
