//! Every Lustre structure above LNet, as a value that encodes to the same bytes.
//!
//! Pure: the only place with the byte offsets of RPC messages and of what is in their buffers.
//!
//! # Messages
//!
//! `lustre-wire` is to RPC what `lnet-wire` is to LNet. A `Container` is what is on the wire: words
//! and up to 32 buffers. A `Message` is a container without protection whose first buffer is the
//! RPC body. It borrows the received buffers, and those of a message to send may be borrowed too,
//! so that the data of a short write are not copied. Bulk data are not part of messages.
//!
//! ```text
//! Message::decode(bytes)            Message::request(&ENQUEUE_OPEN)
//!    .format()   ENQUEUE_OPEN          .with(&LOCK_REQUEST, &lock)
//!    .get(&NAME) Ok(Some("passwd"))    .with(&NAME, &name).to_bytes()
//! ```
//!
//! A `Format` lists the buffers of a request and of its reply; a `FieldOf<T>` names a buffer and
//! its type. Operations such as intents have several formats: that of a request follows from its
//! first buffers, that of a reply from its request (`answering`). A buffer is decoded when it is
//! read, in the byte order of its sender; an empty or missing buffer has no value, since older
//! peers send fewer. Through `dyn Buffer` a message can be printed without knowledge of its types.
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
