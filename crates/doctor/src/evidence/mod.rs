//! Evidence of a host as values, gathered from `/proc`, `/sys`, sockets and tools.
//!
//! What is not available is `None` or empty: a tool is not installed, or the kernel lacks a file.

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
pub use lnet::{LnetAnswer, LnetResult, client, ping as ping_lnet};
pub use names::{NamesResult, look_up as look_up_names};
pub use port::{PortOutcome, PortResult, probe as probe_port};

use std::path::Path;

/// Returns the text of a file without surrounding white space.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the number in a file that holds nothing else.
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
