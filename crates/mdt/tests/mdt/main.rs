//! An MDT as its clients see it.

mod attributes;
mod changelog;
mod crash;
mod damaged;
mod directories;
mod nodemaps;
mod opens;
mod operations;
mod parameters;
mod quota;
mod requests;
mod rig;
mod sequences;
mod tree;
mod xattrs;
