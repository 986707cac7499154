//! Hostile peers: attackers that speak the protocol badly on purpose, beside honest nodes whose
//! service is measured.
//!
//! [`ATTACKS`] is the table of what attackers do. Each attack is a process of `fulmar-hostile` that
//! is pinned to one core, so that a node with two has one for others; it has 60,000 addresses and
//! may use privileged ports, as a root user of one node of the network can. The attacked node is
//! `fulmar node` with the role selftest and default settings, as far as the [`Setup`] allows it. The
//! attacks on requests and locks of Lustre, `rpc.*`, are against `fulmar-targets`, beside clients of
//! its OST, one of which wants a lock that attackers hold.
//!
//! [`measure`] runs one attack and measures the service of the attacked node, for the benchmark.
//! [`mix()`] runs several at once, chosen by a seed, and requires only what does not depend on the
//! speed of the machine.

mod attacker;
mod attacks;
mod forge;
mod honest;
mod line;
mod memory;
mod mix;
mod requests;
mod service;
mod stage;
mod swarm;
mod targets;
mod trial;

pub use attacker::{Orders, Tally};
pub use attacks::{ATTACKS, Attack, Setup, run};
pub use mix::{Mix, MixReport, mix};
pub use trial::{AttackReport, measure, table};
