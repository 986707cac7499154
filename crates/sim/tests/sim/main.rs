//! The simulator: scenarios, swarms, deliberate defects. One program, because each link takes seconds.

mod captures;
mod defects;
mod determinism;
mod ideal;
mod long_links;
mod scenarios;
mod selftest;
mod stories;
mod swarm;
