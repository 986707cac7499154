//! An MDT: the tree of a file system, over a [`Store`](fulmar_store::Store).
//!
//! Requests go in as messages, replies come out. Each change is one transaction, with all inodes and entries
//! that it touches, what their owners use, and the reply.
//!
//! The host has the network, the locks of clients and the clock: it takes the locks that a request
//! needs, calls [`Mdt`], sends a reply when its transaction is durable if it must ([`Answer::durable`]), and says
//! when clients come and go. What the MDT wants of its OSTs is behind [`Objects`].
#![forbid(unsafe_code)]

mod access;
mod acl;
mod change;
mod changelog;
mod check;
mod data;
mod inode;
mod layout;
mod limits;
mod mdt;
pub mod mode;
mod names;
mod objects;
mod opens;
mod parameters;
mod records;
mod request;
mod root;
mod stats;
mod tree;
mod tuning;

pub use access::{Caller, Capabilities, Wanted};
pub use changelog::ChangelogUserId;
pub use fulmar_target::data::Holder;
pub use inode::{Attributes, Extra, Inode};
pub use layout::Plan;
pub use mdt::{Call, Mdt, Settings};
pub use names::{Entry, Listed, NAME_MAX};
pub use objects::{NoObjects, Object, Objects, Owner};
pub use records::Failure;
pub use request::{Answer, Done, Pages, Target};
