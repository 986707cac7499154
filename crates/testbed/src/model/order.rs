//! Operations at the same time, and the order in which they may have been executed.

use std::collections::BTreeMap;
use std::time::Instant;

use super::operation::{Operation, Step};
use super::outcome::Outcome;
use super::world::World;

/// What an operation has returned, and when it was begun and had ended.
#[derive(Clone, Debug)]
pub struct TimedOutcome {
    /// What it has returned.
    pub outcome: Outcome,
    /// From here on it may have been executed.
    pub begun: Instant,
    /// Then it was.
    pub ended: Instant,
}

/// Executes operations by clients at the same time: each one those of its own, in their order.
pub(super) fn timed<C: Send>(
    clients: &mut [C],
    steps: &[Step],
    perform: impl Fn(&mut C, &Operation) -> Outcome + Sync,
) -> Vec<TimedOutcome> {
    let mut all = vec![None; steps.len()];
    let perform = &perform;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let own = steps
                .iter()
                .enumerate()
                .filter(move |(_, step)| usize::from(step.client) == number);
            running.push(scope.spawn(move || {
                let mut found = Vec::new();
                for (place, step) in own {
                    let begun = Instant::now();
                    let outcome = perform(client, &step.operation);
                    found.push((place, TimedOutcome { outcome, begun, ended: Instant::now() }));
                }
                found
            }));
        }
        for client in running {
            let found = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found.into_iter().for_each(|(place, timed)| all[place] = Some(timed));
        }
    });
    all.into_iter().flatten().collect()
}

/// Returns what the file system may be after operations at the same time: one for each order of them which the model
/// admits. An operation that had ended before another one was begun is before it.
pub(super) fn after(world: &World, steps: &[Step], found: &[TimedOutcome]) -> Vec<World> {
    let is_before = |other: usize, next: usize| {
        let is_own = steps[other].client == steps[next].client && other < next;
        is_own || found[other].ended < found[next].begun
    };
    // What is the same after the same operations, in whatever order, is followed once.
    let mut states = BTreeMap::from([(vec![false; steps.len()], vec![world.clone()])]);
    for _ in steps {
        let mut then = BTreeMap::new();
        for (done, worlds) in &states {
            let left: Vec<usize> = (0..steps.len()).filter(|place| !done[*place]).collect();
            for &next in &left {
                if left.iter().any(|other| *other != next && is_before(*other, next)) {
                    continue;
                }
                let mut done = done.clone();
                done[next] = true;
                let then = then.entry(done).or_default();
                for world in worlds {
                    let mut world = world.clone();
                    if world.apply(&steps[next]).admits(&found[next].outcome) {
                        add(then, world);
                    }
                }
            }
        }
        states = then;
    }
    states.into_values().flatten().collect()
}

/// Adds a state of the file system to others: one that is equal to another one only adds what clients may have alone.
pub(super) fn add(worlds: &mut Vec<World>, world: World) {
    match worlds.iter_mut().find(|other| **other == world) {
        Some(other) => other.merge(&world),
        None => worlds.push(world),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::outcome::Outcome::{Bytes, Done};
    use crate::model::{bytes, parse};

    /// Operations of two clients on a file, with what each returns and its times in seconds.
    fn worlds(text: &str, found: &[(Outcome, u64, u64)]) -> usize {
        let mut world = World::default();
        for step in parse("0 open h0 /f0 rwc plain\n1 open h0 /f0 rw plain").unwrap() {
            world.apply(&step);
        }
        let start = Instant::now();
        let time = |seconds| start + Duration::from_secs(seconds);
        let timed = |(outcome, begun, ended): &(Outcome, u64, u64)| TimedOutcome {
            outcome: outcome.clone(),
            begun: time(*begun),
            ended: time(*ended),
        };
        let found: Vec<_> = found.iter().map(timed).collect();
        after(&world, &parse(text).unwrap(), &found).len()
    }

    #[test]
    fn what_runs_at_the_same_time_has_any_order_and_the_rest_its_own() {
        let text = "0& write h0 0 10 1\n1& write h0 5 10 2";
        assert_eq!(worlds(text, &[(Done, 0, 9), (Done, 1, 2)]), 2);
        assert_eq!(worlds(text, &[(Done, 0, 1), (Done, 2, 3)]), 1);
        let text = "0& write h0 0 10 1\n1& read h0 0 10";
        let (old, new) = (Bytes(vec![]), Bytes(bytes(1, 0, 10)));
        assert_eq!(worlds(text, &[(Done, 0, 9), (old.clone(), 1, 2)]), 1);
        assert_eq!(worlds(text, &[(Done, 0, 9), (new, 1, 2)]), 1);
        assert_eq!(worlds(text, &[(Done, 0, 1), (old, 2, 3)]), 0, "it was written before");
        assert_eq!(worlds(text, &[(Done, 0, 9), (Bytes(bytes(1, 0, 5)), 1, 2)]), 0, "half of it");
    }
}
