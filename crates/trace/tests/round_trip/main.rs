//! What kernel nodes sent, decoded and encoded again; and what the writer writes, read back.

mod counts;
mod rules;
mod selftest;
mod traces;
mod written;
