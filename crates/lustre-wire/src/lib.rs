//! Every Lustre structure above LNet, as a value that encodes to the same bytes.
//!
//! Pure: the only place with the byte offsets of RPC messages and of what is in their buffers.
#![forbid(unsafe_code)]

mod fid;

pub use fid::Fid;
