//! Every Lustre structure above LNet, as a value that encodes to the same bytes.
//!
//! Pure: the only place with the byte offsets of RPC messages and of what is in their buffers.
#![forbid(unsafe_code)]

pub mod acl;
mod bytes;
pub mod changelog;
pub mod connect;
mod content;
pub mod directory;
mod fid;
pub mod fld;
pub mod format;
mod handle;
pub mod index;
pub mod layout;
pub mod ldlm;
pub mod lfsck;
pub mod llog;
pub mod mdt;
pub mod message;
pub mod mgs;
mod name;
mod nid;
mod opcode;
pub mod ost;
pub mod portal;
pub mod quota;
pub mod seq;
mod serial;
mod status;
#[cfg(test)]
mod testing;
pub mod update;
mod uuid;
pub mod xattr;

pub use bytes::{Bytes, Padding, Text};
pub use content::{Content, List};
pub use fid::{Fid, FidError};
pub use handle::Handle;
pub use name::{Key, Name, Names};
pub use nid::{LargeNid, SmallNid};
pub use opcode::{Opcode, Service};
pub use status::Status;
pub use uuid::Uuid;
