//! Bytes to values and back: [`Reader`], [`Writer`], [`Order`], [`DecodeError`] and
//! [`wire_enum!`].
//!
//! Pure: bytes in, values out. Nothing that a peer can send makes these functions panic.
#![forbid(unsafe_code)]

mod error;
mod macros;
mod order;
mod reader;
pub mod testing;
mod writer;

pub use error::DecodeError;
pub use order::Order;
pub use reader::Reader;
pub use writer::Writer;
