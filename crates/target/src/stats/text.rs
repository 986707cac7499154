//! The counters as text, in the forms of a kernel target.

use std::fmt::Write;
use std::time::Duration;

use super::{Counters, Names, Tally};

fn seconds(since: i64) -> Duration {
    Duration::from_secs(since.try_into().unwrap_or(0))
}

/// Appends the times with which each file begins: `now` and `begun` since 1970.
pub fn times(
    out: &mut String,
    now: Duration,
    begun: Duration,
    width: usize,
    colon: &str,
    indent: &str,
) {
    let elapsed = now.saturating_sub(begun);
    for (name, time) in [("snapshot_time", now), ("start_time", begun), ("elapsed_time", elapsed)] {
        let (name, secs, nanos) = (format!("{name}{colon}"), time.as_secs(), time.subsec_nanos());
        let _ = writeln!(out, "{indent}{name:width$} {secs}.{nanos:09} secs.nsecs");
    }
}

/// Returns the counters that have samples.
pub fn stats(names: Names, counters: &Counters, now: Duration, begun: Duration) -> String {
    let mut out = String::new();
    times(&mut out, now, begun, 35, "", "");
    for (name, unit) in names {
        if let Some(counter) = counters.get(name) {
            let _ = writeln!(
                out,
                "{name:35} {} samples [{unit}] {} {} {} {}",
                counter.samples, counter.min, counter.max, counter.sum, counter.squares
            );
        }
    }
    out
}

/// Returns the counters of jobs, as YAML.
pub fn job_stats(names: Names, jobs: &[(Vec<u8>, Tally)]) -> String {
    let mut out = "job_stats:\n".to_owned();
    for (name, tally) in jobs {
        let _ = writeln!(out, "- {:16} {}", "job_id:", quoted(name));
        times(&mut out, seconds(tally.last), seconds(tally.begun), 16, ":", "  ");
        for (name, unit) in names {
            let counter = tally.counters.get(name).copied().unwrap_or_default();
            let width = 15_usize.saturating_sub(name.len());
            let _ = writeln!(
                out,
                "  {name}:{:width$} {{ samples: {:11}, unit: {unit:>5}, min: {:8}, max: {:8}, \
                 sum: {:16}, sumsq: {:18} }}",
                "", counter.samples, counter.min, counter.max, counter.sum, counter.squares
            );
        }
    }
    out
}

/// Returns the name of a job, which a client chooses, as a scalar of YAML on one line.
fn quoted(name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".@-_:/".contains(byte);
    let mut text = String::new();
    for byte in name {
        if is_plain(byte) {
            text.push(char::from(*byte))
        } else {
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    let begins_plain = name.first().is_some_and(|byte| !b"@-".contains(byte));
    let needs_quotes = !name.iter().all(is_plain) || name.contains(&b':') || !begins_plain;
    if needs_quotes { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Counter;

    const NAMES: Names = &[("read_bytes", "bytes"), ("write_bytes", "bytes"), ("punch", "usecs")];
    const BEGUN: Duration = Duration::from_secs(1_795_000_000);

    fn wrote() -> Counters {
        let bytes = Counter { samples: 2, min: 4096, max: 8192, sum: 12288, squares: 83_886_080 };
        let time = Counter { samples: 1, min: 30, max: 30, sum: 30, squares: 900 };
        Counters::from([("write_bytes", bytes), ("punch", time)])
    }

    #[test]
    fn counters_are_shown_as_by_a_kernel_target() {
        let now = BEGUN + Duration::from_micros(2_500_000);
        assert_eq!(
            stats(NAMES, &wrote(), now, BEGUN),
            "snapshot_time                       1795000002.500000000 secs.nsecs\n\
             start_time                          1795000000.000000000 secs.nsecs\n\
             elapsed_time                        2.500000000 secs.nsecs\n\
             write_bytes                         2 samples [bytes] 4096 8192 12288 83886080\n\
             punch                               1 samples [usecs] 30 30 30 900\n"
        );
    }

    #[test]
    fn jobs_are_shown_as_yaml_whatever_their_names_are() {
        assert_eq!(job_stats(NAMES, &[]), "job_stats:\n");
        let tally = Tally { begun: 1_795_000_000, last: 1_795_000_002, counters: wrote() };
        let text = job_stats(NAMES, &[(b"dd.0".to_vec(), tally)]);
        let mut lines = text.lines();
        assert_eq!(lines.nth(1), Some("- job_id:          dd.0"));
        assert_eq!(lines.next(), Some("  snapshot_time:   1795000002.000000000 secs.nsecs"));
        let line = lines.find(|line| line.starts_with("  write_bytes:")).unwrap();
        let expected = "  write_bytes:     { samples:           2, unit: bytes, min:     4096, max:     \
                        8192, sum:            12288, sumsq:           83886080 }";
        assert_eq!(line, expected);
        assert_eq!(text.matches("samples:").count(), NAMES.len());
        for (name, expected) in [
            (&b"cp.0"[..], "cp.0"),
            (b"a b\n", r#""a\x20b\x0A""#),
            (b"a:1", r#""a:1""#),
            (b"@x", r#""@x""#),
            (b"-", r#""-""#),
            (b"", r#""""#),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }
}
