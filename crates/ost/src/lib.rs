//! An OST: the objects with the data of files, over a [`Store`](fulmar_store::Store).
//!
//! Requests go in as messages, replies come out. [`Holder::execute`] executes what has its data in its message;
//! a read or a write of more is prepared ([`Holder::prepare`]), and executed when its host has moved the data. Each change
//! is one transaction, with the attributes of the object, what its owner uses, and the reply.
//!
//! The host has the network, the locks and the clock: it asks for [`Ost::lvb`], sends a reply when its
//! transaction is durable ([`Answer::durable`]), and says when clients come and go.
//!
//! # Inside
//!
//! `ost` executes the requests for objects, as calls of a shared `Ost`: the threads of its host, or
//! the simulator. It knows no network, no locks of clients and no clock. What it does with the data
//! themselves, an MDT does too (`target::data`, `Holder`). A request with its data in the message
//! is one call. A bulk read or write is two: `prepare` checks it and takes the space, the host
//! moves the data, and `write` or `read` moves them between that memory and the store's file,
//! without a copy and without looking at them. The owner of the bytes feeds the `Checksum`.
//!
//! | space | key | value |
//! |---|---|---|
//! | `10` | sequence, number of an object | attributes; nothing as long as it is created but unused |
//! | `11` | sequence | the last object that was created |
//! | `12` | kind, id | bytes and objects of a user, a group or a project |
//! | `13` | `free` | sequences that no MDT has |
//!
//! **A change** is one transaction: data, attributes, the use of the owner, the reply. A change of
//! an object has its lock (one of 1,024) from the reading of its attributes to the end, so writes
//! to one object do not conflict in the store, which would have them repeat the data. Sums that all
//! writers of a user change are not read by transactions: they are in memory, and the new value is
//! made when a transaction gets its number. A write of 1 MiB reads two keys and sets three to
//! seven: attributes, the reply, the last replay, and, if it is larger than before, the size and
//! three owners.
//!
//! **Created objects** have an empty record until their first use, so that 20,000 of them cost a
//! few hundred KiB, and what exists is what has a record.
//!
//! **Space** is counted here, in blocks of 4 KiB where there are data. What a file system says of a
//! file changes by itself (it allocates late, and in advance), and the sums would not add up. Where
//! holes are filled or made, the store is asked for them.
//!
//! **Grants** are accounts in memory: what a client has, what it has cached, and what writes under
//! way will take. A client that connects again, also after a restart, says what it had. What a
//! write needs beyond its client's grant is taken from the space without an owner; if there is not
//! enough, only ranges that have their blocks already are written, and the others fail with ENOSPC
//! before any data are lost. `Ost::check` adds everything up.
//!
//! **Replays** of transactions that are on disk, or were replayed already, are answered and change
//! nothing. A write that is replayed makes its object if that was lost too.
#![forbid(unsafe_code)]

mod attributes;
mod brw;
mod check;
mod connect;
mod create;
mod execute;
mod ids;
mod info;
mod ost;
mod records;
mod sequences;
mod stats;
mod text;

pub use fulmar_target::data::{Holder, LoadedRead, Room, Total, Transfer};
pub use fulmar_target::stats::{Counter, Counters, Tally};
pub use fulmar_target::usage::UsageRecord;
pub use ost::{Answer, Call, Ost, Settings};
pub use stats::{BrwStats, Sizes};
