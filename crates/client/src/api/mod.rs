//! The interface to programs: file systems and open files.

pub mod blocking;
mod cached;
mod file;
mod filesystem;
mod locks;
mod node;
mod restarts;
mod waits;
mod xattrs;

pub use file::File;
pub use filesystem::FileSystem;
pub use node::{ClientNode, MountOptions, Process};
