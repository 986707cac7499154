//! The study of long links. One program, because each that is linked costs seconds.

mod model;
mod pictures;
mod routed;
mod scale;
