//! Stories of nodes with several interfaces, with routers between them, and with rules of faults.

mod common;
mod faults;
mod rails;
mod routers;
