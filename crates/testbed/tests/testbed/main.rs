//! Real nodes in network namespaces. One program, because each that is linked costs seconds, and
//! because these tests wait more than they compute, so that they are run many at a time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod doctor;
mod hostile;
mod invariants;
mod kill;
mod model;
mod namespaces;
mod planted;
mod rails;
