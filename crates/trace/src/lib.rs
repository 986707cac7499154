//! Network captures: reads LNet messages from files of `tcpdump` and Wireshark, and writes files
//! for them from the data of nodes or simulations.
//!
//! Pure: from the bytes of a file to values, and the reverse.
//!
//! ```no_run
//! # fn file() -> Vec<u8> { Vec::new() }
//! # fn main() -> Result<(), fulmar_trace::CaptureError> {
//! let bytes = fulmar_trace::decompress(&file())?.into_owned();
//! let capture = fulmar_trace::Capture::read(&bytes)?;
//! for connection in fulmar_trace::Conversation::of(&capture).connections {
//!     for item in fulmar_trace::lnet::parse(&connection) {
//!         println!("{} {:?} {:?}", item.time, item.direction, item.kind);
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! `rpc` finds the calls of a capture: a request, its retransmissions, early replies, replies and
//! bulk data, by their match bits. `fulmar decode` prints them. The tests decode every message, log
//! record, directory page and table of the captures and encode them to the same bytes.
#![forbid(unsafe_code)]

mod capture;
mod gzip;
pub mod lnet;
pub mod rpc;
mod segment;
mod tcp;
mod writer;

pub use capture::{Capture, CaptureError, LinkType, Packet};
pub use gzip::{FILE_MAX, decompress};
pub use segment::Segment;
pub use tcp::{Chunk, Connection, Conversation, Direction, End, Start};
pub use writer::{CaptureWriter, FlowId};
