//! The memory of the attacked process, its connections with attackers, and the messages it holds.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::lab::{Node, resident_mib};

/// Reads the memory of a process until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<f64>>,
}

/// How often memory is read.
const TICK: Duration = Duration::from_millis(20);

impl Watch {
    pub(super) fn new(process: u32) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = std::thread::spawn(move || {
            let mut worst = 0.0_f64;
            while !ended.load(Ordering::Relaxed) {
                worst = worst.max(resident_mib(process).unwrap_or(0.0));
                std::thread::sleep(TICK);
            }
            worst
        });
        Self { end, thread: Some(thread) }
    }

    /// Returns the largest resident memory, in MiB.
    pub(super) fn finish(mut self) -> f64 {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0.0)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// What a node keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NodeUsage {
    pub(super) rss_mib: f64,
    /// Connections with attackers.
    pub(super) connections: usize,
    pub(super) messages: u64,
}

impl NodeUsage {
    /// Reads what a node keeps.
    ///
    /// # Errors
    /// If the node has ended, or does not answer.
    pub(super) fn of(node: &Node) -> Result<Self, String> {
        let id = node.id();
        let stats = node.run("lnetctl stats show")?;
        let messages = stats.lines().find_map(|line| line.trim().strip_prefix("msgs_alloc:"));
        let messages = messages.and_then(|text| text.trim().parse().ok());
        Ok(Self {
            rss_mib: resident_mib(id)?,
            connections: connections(id)?,
            messages: messages.ok_or_else(|| format!("no msgs_alloc in {stats}"))?,
        })
    }

    /// Returns what is left of attacks.
    pub(super) fn left(&self) -> Option<String> {
        match (self.messages, self.connections) {
            (0, 0) => None,
            (0, connections) => Some(format!("{connections} connections with attackers are left")),
            (messages, _) => Some(format!("{messages} messages are left")),
        }
    }
}

/// Returns how many connections with attackers there are on the host of a process.
///
/// # Errors
/// If it has ended.
pub(super) fn connections(process: u32) -> Result<usize, String> {
    let tables = ["tcp", "tcp6"].map(|kind| {
        let path = format!("/proc/{process}/net/{kind}");
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    });
    let [ipv4, ipv6] = tables;
    Ok(with_attackers(&ipv4?) + with_attackers(&ipv6?))
}

/// Returns how many connections with attackers are in a table of the kernel. See proc(5),
/// `net/tcp`: addresses are words of four bytes in the order of the machine.
fn with_attackers(table: &str) -> usize {
    let is_one = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        let (Some(remote), Some(state)) = (words.next(), words.next()) else { return false };
        let is_attacker = match remote.split_once(':') {
            // 10.3.0.0/16
            Some((address, _)) if address.len() == 8 => address.ends_with("030A"),
            // fd00:3::/32
            _ => remote.starts_with("030000FD"),
        };
        is_attacker && [ESTABLISHED, CLOSE_WAIT].contains(&state)
    };
    table.lines().filter(is_one).count()
}

const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_connections_with_attackers_are_counted() {
        let line = |remote: &str, state: &str| format!("  0: 0100010A:03DC {remote} {state} 0:0\n");
        let table = "  sl  local_address rem_address   st\n".to_owned()
            + &line("0100030A:03FF", "01")
            + &line("0200030A:03FF", "06")
            + &line("0200010A:03FF", "01");
        assert_eq!(with_attackers(&table), 1);
        let ipv6 = line("030000FD000000000000000005000000:03E8", "08");
        assert_eq!(with_attackers(&ipv6), 1);
    }
}
