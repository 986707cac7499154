//! Servers against the recorded requests of kernel clients, and against our own clients.

mod bulk;
mod callbacks;
mod data;
mod flavors;
mod joined;
mod node;
mod pair;
mod recorded;
mod recorded_callbacks;
mod swarm;
