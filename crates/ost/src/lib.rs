//! An OST: the objects with the data of files, over a [`Store`](fulmar_store::Store).
//!
//! Requests go in as messages, replies come out. [`Holder::execute`] executes what has its data in its message;
//! a read or a write of more is prepared ([`Holder::prepare`]), and executed when its host has moved the data. Each change
//! is one transaction, with the attributes of the object, what its owner uses, and the reply.
//!
//! The host has the network, the locks and the clock: it asks for [`Ost::lvb`], sends a reply when its
//! transaction is durable ([`Answer::durable`]), and says when clients come and go.
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

pub use fulmar_target::data::{Holder, Reading, Room, Total, Transfer};
pub use fulmar_target::stats::{Counter, Counters, Tally};
pub use fulmar_target::usage::Used;
pub use ost::{Answer, Call, Ost, Settings};
pub use stats::{BrwStats, Sizes};
