//! Every Lustre structure above LNet, as a value that encodes to the same bytes.
//!
//! Pure: the only place with the byte offsets of RPC messages and of what is in their buffers.
#![forbid(unsafe_code)]

pub mod acl;
mod bytes;
pub mod changelog;
mod content;
pub mod directory;
mod fid;
pub mod fld;
mod handle;
pub mod index;
pub mod layout;
pub mod ldlm;
pub mod lfsck;
pub mod llog;
pub mod mdt;
pub mod mgs;
mod nid;
pub mod ost;
pub mod quota;
pub mod seq;
mod serial;
#[cfg(test)]
mod testing;
pub mod update;
pub mod xattr;

pub use bytes::{Bytes, Padding, Text};
pub use content::{Content, List};
pub use fid::Fid;
pub use handle::Handle;
pub use nid::{LargeNid, SmallNid};
