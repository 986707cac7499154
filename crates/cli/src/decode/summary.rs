//! Counts and latencies of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_text::{Table, UNKNOWN, bytes, duration, grouped, left, or_unknown, right};
use fulmar_trace::rpc::Rpc;
use serde_json::{Value, json};

use super::facts::{is_failed, label};

/// The RPCs of one operation.
#[derive(Default)]
struct Operation {
    requests: u64,
    failed: u64,
    unanswered: u64,
    resent: u64,
    early: u64,
    bulk: u64,
    latencies: Vec<Duration>,
}

/// The RPCs by operation, the most frequent first.
pub(super) struct Summary(Vec<(String, Operation)>);

const PERCENTILES: [(u64, &str); 3] = [(50, "p50"), (90, "p90"), (99, "p99")];

impl Summary {
    pub(super) fn of<'a>(rpcs: impl IntoIterator<Item = &'a Rpc<'a>>) -> Self {
        let mut operations = BTreeMap::<String, Operation>::new();
        for rpc in rpcs {
            operations.entry(label(&rpc.request.message)).or_default().add(rpc);
        }
        let mut operations: Vec<_> = operations.into_iter().collect();
        operations.iter_mut().for_each(|(_, operation)| operation.latencies.sort_unstable());
        operations.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.requests));
        Self(operations)
    }

    pub(super) fn text(&self) -> String {
        let columns = [left("operation"), right("requests"), right("failed"), right("no reply")];
        let times = PERCENTILES.iter().map(|(_, name)| right(*name)).chain([right("max")]);
        let mut table = Table::new(columns.into_iter().chain(times).chain([right("bulk")]));
        let some = |number: u64| if number == 0 { UNKNOWN.to_owned() } else { grouped(number) };
        for (name, operation) in &self.0 {
            let counts =
                [grouped(operation.requests), some(operation.failed), some(operation.unanswered)];
            let times = PERCENTILES.map(|(percent, _)| operation.percentile(percent));
            let times = times.into_iter().chain([operation.percentile(100)]);
            let bulk = if operation.bulk == 0 { UNKNOWN.to_owned() } else { bytes(operation.bulk) };
            let cells = [name.clone()].into_iter().chain(counts);
            table.row(cells.chain(times.map(|time| or_unknown(time, duration))).chain([bulk]));
        }
        table.to_string()
    }

    pub(super) fn json(&self) -> String {
        let line = |(name, operation): &(String, Operation)| {
            let mut value = json!({
                "operation": name,
                "requests": operation.requests,
                "failed": operation.failed,
                "unanswered": operation.unanswered,
                "resent": operation.resent,
                "early_replies": operation.early,
                "bulk_bytes": operation.bulk,
            });
            for (percent, name) in PERCENTILES.into_iter().chain([(100, "max")]) {
                let seconds = operation.percentile(percent).map(|time| time.as_secs_f64());
                value[format!("{name}_s")] = seconds.map_or(Value::Null, Value::from);
            }
            format!("{value}\n")
        };
        self.0.iter().map(line).collect()
    }
}

impl Operation {
    fn add(&mut self, rpc: &Rpc<'_>) {
        self.requests += 1;
        match rpc.latency() {
            Some(latency) => {
                self.latencies.push(latency);
                self.failed += u64::from(is_failed(rpc));
            }
            None => self.unanswered += 1,
        }
        self.resent += rpc.resends.len() as u64;
        self.early += rpc.early.len() as u64;
        self.bulk += rpc.bulk_len();
    }

    /// Returns the latency that this share of the RPCs did not exceed.
    fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.latencies.len() as u64 * percent).div_ceil(100).max(1) - 1;
        self.latencies.get(rank as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_measured_latency() {
        let latencies = (1..=200).map(Duration::from_millis).collect();
        let operation = Operation { latencies, ..Operation::default() };
        let found = [1, 50, 99, 100].map(|percent| operation.percentile(percent).unwrap());
        assert_eq!(found.map(|time| time.as_millis()), [2, 100, 198, 200]);
        assert_eq!(Operation::default().percentile(50), None);
    }
}
