//! Captures of kernel nodes, decoded and encoded again; and written captures, read again.

mod counts;
mod rpc;
mod rules;
mod selftest;
mod traces;
mod written;
