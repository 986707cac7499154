//! Runs independent work items on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` for each of `items`, in order, on as many threads as there are cores, and returns
/// the results in the order of the items. `progress` receives the number of finished items.
///
/// # Panics
/// If `work` panics.
pub fn on_all_cores<I: Sync, O: Send>(
    items: &[I],
    work: impl Fn(&I) -> O + Sync,
    progress: impl Fn(usize) + Sync,
) -> Vec<O> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<O>>> = Mutex::new(items.iter().map(|_| None).collect());
    let worker = || {
        while let Some((n, item)) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            items.get(n).map(|item| (n, item))
        } {
            let result = work(item);
            results.lock().expect("no thread panics while holding it")[n] = Some(result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().expect("no thread panics while holding it");
    results.into_iter().map(|result| result.expect("each item is done once")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let calls = AtomicUsize::new(0);
        let results = on_all_cores(
            &items,
            |n| n * n,
            |_| {
                calls.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert!(results.iter().enumerate().all(|(n, square)| *square == (n * n) as u64));
        assert_eq!(calls.into_inner(), 100);
        assert!(on_all_cores(&[], |n: &u64| *n, |_| ()).is_empty());
    }
}
