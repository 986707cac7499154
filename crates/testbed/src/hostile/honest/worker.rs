//! A client that repeats its work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Honest;

/// A thread that repeats something as an honest client, until this is dropped.
pub(in crate::hostile) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Honest>>,
}

#[derive(Debug, Default)]
struct Shared {
    end: AtomicBool,
    rounds: Mutex<Vec<Round>>,
}

#[derive(Debug)]
struct Round {
    begun: Instant,
    took: Duration,
    failed: Option<String>,
}

/// The pause after each round.
const PAUSE: Duration = Duration::from_millis(1);

impl Worker {
    /// Repeats `work`, which is told the number of the round and returns how long it took. The
    /// thread stays on the host of the caller.
    pub(in crate::hostile) fn start(
        mut client: Honest,
        mut work: impl FnMut(&mut Honest, u32) -> Result<Duration, String> + Send + 'static,
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let reports = shared.clone();
        let thread = std::thread::spawn(move || {
            for number in 1.. {
                let begun = Instant::now();
                let (took, failed) = match work(&mut client, number) {
                    Ok(took) => (took, None),
                    Err(why) => (begun.elapsed(), Some(why)),
                };
                reports.rounds().push(Round { begun, took, failed });
                if reports.end.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            client
        });
        Self { shared, thread: Some(thread) }
    }

    /// Returns how many rounds have begun since an instant and ended, and the 99th percentile of
    /// their times. One that has not ended is among the latter.
    pub(in crate::hostile) fn since(&self, instant: Instant) -> (usize, Duration) {
        let rounds = self.shared.rounds();
        let ended = rounds.iter().filter(|round| round.begun >= instant);
        let mut times: Vec<Duration> = ended.map(|round| round.took).collect();
        let count = times.len();
        let last = rounds.last().map_or(instant, |round| round.begun + round.took);
        times.push(last.max(instant).elapsed());
        times.sort_unstable();
        (count, times[count * 99 / 100])
    }

    /// Ends the client, and returns how many rounds it made and the longest time.
    ///
    /// # Errors
    /// What failed, or that it lost its connection.
    pub(in crate::hostile) fn end(mut self) -> Result<(usize, Duration), String> {
        self.shared.end.store(true, Ordering::Relaxed);
        let client = self.thread.take().and_then(|thread| thread.join().ok());
        let client = client.ok_or("an honest client has failed")?;
        let rounds = self.shared.rounds();
        if let Some(why) = rounds.iter().find_map(|round| round.failed.as_ref()) {
            return Err(format!("a request of an honest client: {why}"));
        }
        let lost = client.lost();
        if !lost.is_empty() {
            return Err(format!("an honest client lost its connection: {lost:?}"));
        }
        client.end()?;
        let longest = rounds.iter().map(|round| round.took).max().unwrap_or_default();
        Ok((rounds.len(), longest))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn rounds(&self) -> MutexGuard<'_, Vec<Round>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
