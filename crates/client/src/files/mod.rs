//! The operations on files, and what is cached of them.

pub(crate) mod ahead;
pub(crate) mod attributes;
pub(crate) mod caller;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod figures;
pub(crate) mod flock;
pub(crate) mod info;
pub(crate) mod inline;
pub(crate) mod inode;
pub(crate) mod known;
pub(crate) mod layout;
pub(crate) mod layouts;
pub(crate) mod locate;
pub(crate) mod lookup;
pub(crate) mod mount;
pub(crate) mod open;
pub(crate) mod operations;
pub(crate) mod request;
pub(crate) mod setattr;
pub(crate) mod size;
pub mod special;
pub(crate) mod targets;
pub(crate) mod tunables;
pub(crate) mod xattrs;
