//! Scenarios with several interfaces per node, with routers, and with fault rules.

mod common;
mod faults;
mod rails;
mod routers;
mod silence;
