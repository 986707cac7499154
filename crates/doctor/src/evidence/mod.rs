//! What a host and its kernel say: values, gathered from `/proc`, `/sys`, sockets and tools.
//!
//! What cannot be had is `None` or empty: a tool that is not installed, a file of another kernel.

pub mod command;
mod device;
mod firewall;
mod host;
mod interrupts;
mod lnet;
mod names;
mod port;
pub mod raw;

pub use device::{Counters, Device, Rings};
pub use firewall::Firewall;
pub use host::{Clock, Host, Limit, Softnet, TcpSettings, gather};
pub use interrupts::Interrupt;
pub use lnet::{LnetAnswer, LnetSeen, ask as ask_lnet, client};
pub use names::{NamesSeen, look as look_at_names};
pub use port::{PortOutcome, PortSeen, knock};

use std::path::Path;

/// Returns a file of the kernel without the line's end.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Returns a number that stands alone in a file.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    read(path)?.parse().ok()
}

/// Returns the names in a directory, sorted.
fn entries(path: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
