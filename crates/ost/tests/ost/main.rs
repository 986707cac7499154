//! An OST as its clients see it.
// The memory of a transfer moves its bytes to and from files itself.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod crash;
mod damaged;
mod grants;
mod nodemaps;
mod operations;
mod recorded;
mod rig;
mod threads;
