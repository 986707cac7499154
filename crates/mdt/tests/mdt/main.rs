//! An MDT as its clients see it.

mod opens;
mod operations;
mod requests;
mod rig;
mod xattrs;
