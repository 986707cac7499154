//! An MDT: the tree of a file system, over a [`Store`](fulmar_store::Store).
//!
//! Requests go in as messages, replies come out. Each change is one transaction, with all inodes and entries
//! that it touches, what their owners use, and the reply.
//!
//! The host has the network, the locks of clients and the clock: it takes the locks that a request
//! needs, calls [`Mdt`], sends a reply when its transaction is durable if it must ([`Answer::durable`]), and says
//! when clients come and go. What the MDT wants of its OSTs is behind [`Objects`].
//!
//! # Layers
//!
//! `mdt` executes the requests for metadata, as calls of a shared `Mdt`: the threads of its host,
//! or the simulator. Like the OST it knows no network, no locks of clients and no clock. Its three
//! layers:
//!
//! * `request`: messages to operations and back, with the phases of intents;
//! * `tree`: operations as changes of a `Change`, with the checks and statuses of a kernel MDT in
//!   its order;
//! * records: inodes, entries, extended attributes.
//!
//! | space | key | value |
//! |---|---|---|
//! | `20` | FID | inode: attributes, layout, names, access control lists, target of a symbolic link, size as far as it is known |
//! | `21` | FID of a directory, hash, name | FID and type of a file |
//! | `22` | FID, name | an extended attribute of a user |
//! | `23` | FID | nothing: a file without a name that is open |
//! | `24` | `hash`, `sequences`, `super`, `changelog` | the key of the hash of names; the next sequences for clients and servers; the users of the changelog |
//! | `25` | sequence | a range of sequences, and the target that has it |
//! | `26` | kind, id | the files of a user, a group or a project |
//! | `27` | kind, id | how many files it may have |
//! | `28` | number | a record of the changelog |
//!
//! **An inode** has what the MDT itself needs, in the form in which clients read it, so that an
//! open or a `stat` is one read. A creation sets four keys: the inode, its name, the directory and
//! the reply. Nothing is loaded at the start but the sums of owners.
//!
//! **Names** are ordered by a hash of 63 bits, which is also the place that clients have in a
//! directory's stream. It is SipHash with a key of the file system: a user cannot choose names of
//! one hash.
//!
//! **A change** reads and writes inodes through a `Change`, which becomes one transaction with the
//! saved reply. A change, an open or a close of a file has its lock, one of 1,024, from reading it
//! to the end; so changes do not conflict in the store, and a file whose last name goes is either
//! open, and an orphan (while the MDT recovers always: an open that was on disk has no turn among
//! the replays), or gone. One directory is moved at a time, since what is above it must not change
//! meanwhile. Locks of clients do not matter for any of this: they keep the caches of clients
//! right, and are the host's.
//!
//! **A batch** of lookups (`server`, `mdt::batch`) is executed as so many intents, one after the
//! other, with one reply. None of them waits for a lock, and as at a kernel's MDT, none is of a
//! file with several names. Its client does not know yet of the locks that it got before: an
//! operation that waits for one of these, and has the lock that the batch waits for, would wait for
//! ever.
#![forbid(unsafe_code)]

mod access;
mod acl;
mod change;
mod changelog;
mod check;
mod data;
mod groups;
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

pub use access::{AccessMode, Caller, Capabilities};
pub use changelog::ChangelogUserId;
pub use fulmar_target::data::Holder;
pub use groups::{Groups, groups_of_users};
pub use inode::{Attributes, Extra, Inode};
pub use layout::Plan;
pub use mdt::{Call, Mdt, Settings};
pub use names::{Entry, ListEntry, NAME_MAX};
pub use objects::{NoObjects, Object, Objects, Owner};
pub use records::Failure;
pub use request::{Answer, IntentReply, Pages, Target};
