//! The memory and the descriptors of the attacked process, and the messages that it holds.

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
pub(super) struct Kept {
    pub(super) rss_mib: f64,
    pub(super) descriptors: usize,
    pub(super) messages: u64,
}

impl Kept {
    /// Reads what a node keeps.
    ///
    /// # Errors
    /// If the node has ended, or does not answer.
    pub(super) fn of(node: &Node) -> Result<Self, String> {
        let id = node.id();
        let directory = format!("/proc/{id}/fd");
        let open = fs::read_dir(&directory).map_err(|error| format!("{directory}: {error}"))?;
        let stats = node.run("lnetctl stats show")?;
        let messages = stats.lines().find_map(|line| line.trim().strip_prefix("msgs_alloc:"));
        let messages = messages.and_then(|text| text.trim().parse().ok());
        Ok(Self {
            rss_mib: resident_mib(id)?,
            descriptors: open.count(),
            messages: messages.ok_or_else(|| format!("no msgs_alloc in {stats}"))?,
        })
    }

    /// Returns why this is not as before an attack, if so.
    pub(super) fn differs(&self, before: &Self) -> Option<String> {
        if self.messages > 0 {
            return Some(format!("{} messages are left", self.messages));
        }
        if self.descriptors > before.descriptors + DESCRIPTORS {
            return Some(format!("{} descriptors, {before:?} before", self.descriptors));
        }
        None
    }
}

/// Connections that honest nodes may have opened meanwhile.
const DESCRIPTORS: usize = 16;
