//! Honest nodes, and the service that they get.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::ProcessId;
use fulmar_net::{Admin, Node};

use super::stage::{Stage, nid};

/// The timeout of one ping.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two pings.
const PAUSE: Duration = Duration::from_millis(1);
/// The time in which a ping of a node that is well has ended.
const SETTLED: Duration = Duration::from_millis(20);
/// How long a newcomer tries.
const NEWCOMER: Duration = Duration::from_secs(30);

/// A node that pings the attacked node continuously, until this is dropped.
pub(super) struct Pinger {
    node: Node,
    pings: Arc<Pings>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Pings {
    end: AtomicBool,
    paused: AtomicBool,
    done: Mutex<Vec<Ping>>,
}

/// A ping of an honest node.
#[derive(Clone, Copy, Debug)]
struct Ping {
    begun: Instant,
    took: Duration,
}

impl Pinger {
    /// Starts the node and its pings. A ping that fails counts with its full timeout.
    pub(super) fn start(stage: &Stage) -> Result<Self, String> {
        let node = stage.pinger()?;
        let pings = Arc::<Pings>::default();
        let target = ProcessId::lustre(nid(stage.served()));
        let (pinging, admin) = (pings.clone(), node.admin());
        let ping = move || pinging.run(&admin, target);
        // A thread stays on the host on which it was started.
        let thread = Some(stage.inside(|| std::thread::spawn(ping)));
        Ok(Self { node, pings, thread })
    }

    /// Waits until no ping is in flight, and begins no other; or goes on.
    pub(super) fn pause(&self, paused: bool) {
        self.pings.paused.store(paused, Ordering::Relaxed);
        if paused {
            std::thread::sleep(SETTLED);
        }
    }

    /// Returns the 99th percentile, in milliseconds, of the pings that began since an instant. A
    /// ping that is not answered yet is one of them.
    pub(super) fn p99_ms(&self, since: Instant) -> f64 {
        let done = self.pings.lock();
        let mut all: Vec<Duration> = done
            .iter()
            .filter(|ping| ping.begun + ping.took >= since)
            .map(|ping| ping.took)
            .collect();
        let last = done.last().map_or(since, |ping| ping.begun + ping.took);
        if !self.pings.paused.load(Ordering::Relaxed) {
            all.push(last.max(since).elapsed());
        }
        all.sort_unstable();
        let index = (all.len() * 99 / 100).min(all.len().saturating_sub(1));
        all.get(index).map_or(TIMEOUT.as_secs_f64() * 1e3, |took| took.as_secs_f64() * 1e3)
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.pings.end.store(true, Ordering::Relaxed);
        self.node.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Pings {
    fn run(&self, admin: &Admin, target: ProcessId) {
        while !self.end.load(Ordering::Relaxed) {
            if !self.paused.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let took = match admin.ping(target, None, TIMEOUT) {
                    Ok(_) => begun.elapsed(),
                    Err(_) => TIMEOUT,
                };
                self.lock().push(Ping { begun, took });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ping>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the seconds until a node that connects for the first time has an answer.
pub(super) fn newcomer(stage: &Stage) -> Result<Option<f64>, String> {
    let node = stage.newcomer()?;
    let target = ProcessId::lustre(nid(stage.served()));
    let begun = Instant::now();
    let answered = stage.inside(|| {
        loop {
            let left = NEWCOMER.checked_sub(begun.elapsed())?;
            if node.admin().ping(target, None, left).is_ok() {
                return Some(begun.elapsed().as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    node.stop();
    Ok(answered)
}
