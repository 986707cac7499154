//! A random tester: operations of several clients on files, compared with a model of what POSIX and Lustre promise.
//!
//! ```text
//!  generate ──► steps ──► check ──► world (the model, pure)      what may be returned
//!                           └─────► an executor                  what is returned
//!                                     library   servers and clients of this process
//!                                     mounts    system calls on mounts by processes, and servers of this one
//!                                     agents    system calls by other processes, on mounts that they are given
//!                                     planted   the model with a fault, which must be found
//!  shrink      a failing run with fewer steps
//! ```
//!
//! Operations are text (`operation`), so that a run can be repeated: `fulmar-model --replay FILE`.

pub mod agent;
pub mod agents;
mod calls;
mod check;
mod generate;
mod kernels;
pub mod library;
mod lines;
pub mod mounts;
mod operation;
mod order;
mod outcome;
pub mod planted;
mod servers;
mod shrink;
mod together;
mod visit;
mod wire;
mod words;
mod world;

pub use check::{Executor, Failure, check};
pub use generate::{Settings, generate};
pub use operation::{Operation, Step, bytes, parse};
pub use order::TimedOutcome;
pub use outcome::{Expectation, Kind, Outcome, Stat, Time};
pub use shrink::shrink;
pub use words::{
    Access, Acl, AclEntry, Flags, How, Layout, Mode, Owner, Slot, Target, Value, What,
};
pub use world::World;
