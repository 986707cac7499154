//! The cache in virtual time, against targets behind a long line.

mod faults;
mod fsx;
mod host;
mod image;
mod speed;
mod world;
