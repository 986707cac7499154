//! An MDT as its clients see it.

mod attributes;
mod changelog;
mod crash;
mod damaged;
mod data;
mod directories;
mod leases;
mod nodemaps;
mod opens;
mod operations;
mod parameters;
mod quota;
mod requests;
mod rig;
mod rmfid;
mod sequences;
mod tree;
mod xattrs;
