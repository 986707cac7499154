//! Servers against the recorded requests of kernel clients, and against our own clients.

mod joined;
mod pair;
mod recorded;
