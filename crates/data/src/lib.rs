//! The data path of a file system client.
#![forbid(unsafe_code)]

pub mod budget;
pub mod grants;
pub mod ranges;
pub mod reader;
pub mod stripes;
pub mod window;
