//! Targets that a node serves from their directories, and a client on another node.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod administration;
mod batch;
mod changelog;
mod data;
mod failing;
mod joining;
mod layout;
mod live;
mod mdt;
mod ost;
mod placement;
mod quota;
mod recorded;
mod rig;
mod settings;
