//! What happens in a run.

use std::time::Duration;

use fulmar_base::Rng;

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    pub(crate) targets: usize,
    /// How many locks each client acquires.
    pub(crate) acquires: u64,
    /// One message in so many is lost; 0 for none.
    pub(crate) loss: u64,
    /// One message in so many is not sent, since its connection breaks; 0 for none.
    pub(crate) resets: u64,
    pub(crate) restarts: u64,
    /// How long a host has not written at most, and how long a request takes at most.
    pub(crate) commit: Duration,
    pub(crate) work: Duration,
    /// How long a lock is used at most.
    pub(crate) hold: Duration,
    /// Whether the last client disappears.
    pub(crate) has_gone: bool,
    /// For how many seconds the first client cannot communicate.
    pub(crate) cut: u64,
    /// After which time an acquire must have ended.
    pub(crate) limit: Duration,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seed,
            clients: rng.between(2, 4) as usize,
            targets: rng.between(1, 2) as usize,
            acquires: rng.between(10, 40),
            loss: if rng.one_in(3) { 0 } else { rng.between(20, 100) },
            resets: if rng.one_in(2) { 0 } else { rng.between(20, 100) },
            restarts: rng.below(3),
            commit: Duration::from_millis(rng.between(200, 20_000)),
            work: Duration::from_millis(rng.between(5, 1_000)),
            hold: Duration::from_millis(rng.between(10, 5_000)),
            has_gone: rng.one_in(4),
            cut: if rng.one_in(4) { rng.between(20, 600) } else { 0 },
            limit: Duration::from_secs(1800),
        }
    }

    /// Returns a plan in which nothing goes wrong.
    pub(crate) fn calm(seed: u64) -> Self {
        Self {
            loss: 0,
            resets: 0,
            restarts: 0,
            has_gone: false,
            cut: 0,
            limit: Duration::from_secs(90),
            ..Self::of(seed)
        }
    }

    /// Ends no acquire before so many seconds.
    pub(crate) fn with_limit(self, seconds: u64) -> Self {
        Self { limit: Duration::from_secs(seconds), ..self }
    }
}

/// A deliberate fault, for the checkers to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A server does not send a completion callback, and takes it for answered.
    LosesCompletion,
    /// A server says that a lock is granted that has to wait.
    GrantsInConflict,
    /// The last client answers blocking callbacks, and does nothing.
    IgnoresBlocking,
    /// The same, and no client is evicted.
    IgnoresBlockingForEver,
    /// A client gives up locks without writing back what they cover.
    LosesWrites,
    /// A server executes a write again that it has executed.
    WritesTwice,
}
