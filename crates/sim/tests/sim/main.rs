//! The simulator: stories, swarms, and what is planted in it to be found. One program, because each
//! that is linked costs seconds.

mod canary;
mod captures;
mod determinism;
mod long_links;
mod scenarios;
mod selftest;
mod stories;
mod swarm;
