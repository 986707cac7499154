//! The statistics as text: the files that a kernel node has for an OST.

use std::fmt::Write;
use std::time::Duration;

use fulmar_lustre_wire::Handle;
use fulmar_store::StoreError;

use crate::Ost;
use crate::stats::{BrwStats, Counters, NAMES, Sizes, Tally};

impl Ost {
    /// Returns the files of the OST itself by their names, such as `stats`. `now`: since 1970. `started`:
    /// the same when the OST was started. `exports`: how many clients are connected.
    ///
    /// # Errors
    /// If the store has ended, or its medium does not say how large it is.
    pub fn files(
        &self,
        now: Duration,
        started: Duration,
        exports: usize,
    ) -> Result<Vec<(&'static str, String)>, StoreError> {
        let (size, granted) = (self.size()?, self.granted());
        let kib = |blocks: u64| blocks.saturating_mul(u64::from(size.block_size)) >> 10;
        let line = |value: u64| format!("{value}\n");
        Ok(vec![
            ("blocksize", line(size.block_size.into())),
            ("brw_size", line(u64::from(self.settings.brw_size) >> 20)),
            ("brw_stats", brw_stats(&self.brw_stats(), now, started)),
            ("filesfree", line(size.free_files)),
            ("filestotal", line(size.files)),
            ("instance", line(self.instance().into())),
            ("job_stats", job_stats(&self.job_stats())),
            ("kbytesavail", line(kib(size.available))),
            ("kbytesfree", line(kib(size.free))),
            ("kbytestotal", line(kib(size.blocks))),
            ("num_exports", line(exports as u64)),
            ("stats", stats(&self.total_stats().counters, now, started)),
            ("tot_dirty", line(granted.dirty)),
            ("tot_granted", line(granted.granted)),
            ("tot_pending", line(granted.pending)),
        ])
    }

    /// Returns the file `stats` of a node with these exports.
    pub fn client_file(&self, exports: &[Handle], now: Duration) -> String {
        let mut all = Tally::default();
        for export in exports {
            all.merge(&self.client_stats(*export));
        }
        let begun = if all.counters.is_empty() { now } else { seconds(all.begun) };
        stats(&all.counters, now, begun)
    }
}

fn seconds(since: i64) -> Duration {
    Duration::from_secs(since.try_into().unwrap_or(0))
}

/// Appends the times with which each file begins.
fn times(
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
fn stats(counters: &Counters, now: Duration, begun: Duration) -> String {
    let mut out = String::new();
    times(&mut out, now, begun, 35, "", "");
    for (name, unit) in NAMES {
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
fn job_stats(jobs: &[(Vec<u8>, Tally)]) -> String {
    let mut out = "job_stats:\n".to_owned();
    for (name, tally) in jobs {
        let _ = writeln!(out, "- {:16} {}", "job_id:", quoted(name));
        times(&mut out, seconds(tally.last), seconds(tally.begun), 16, ":", "  ");
        for (name, unit) in NAMES {
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
        match is_plain(byte) {
            true => text.push(char::from(*byte)),
            false => {
                let _ = write!(text, "\\x{byte:02X}");
            }
        }
    }
    let begins_plain = name.first().is_some_and(|byte| !b"@-".contains(byte));
    let needs_quotes = !name.iter().all(is_plain) || name.contains(&b':') || !begins_plain;
    if needs_quotes { format!("\"{text}\"") } else { text }
}

/// Returns the histograms.
fn brw_stats(brw: &BrwStats, now: Duration, begun: Duration) -> String {
    let mut out = String::new();
    times(&mut out, now, begun, 25, ":", "");
    histogram(&mut out, "pages per bulk r/w", "rpcs", &brw.pages, power);
    histogram(&mut out, "discontiguous pages", "rpcs", &brw.gaps, |place| place.to_string());
    histogram(&mut out, "disk I/O size", "ios", &brw.bytes, power);
    out
}

/// Returns a power of two with its unit.
fn power(exponent: usize) -> String {
    let units = ["", "K", "M", "G"];
    format!("{}{}", 1_u64 << (exponent % 10), units[exponent / 10])
}

fn histogram(
    out: &mut String,
    name: &str,
    unit: &str,
    sizes: &Sizes,
    label: impl Fn(usize) -> String,
) {
    let _ = write!(out, "\n{:26} read      |     write\n", "");
    let _ = writeln!(out, "{name:22} {unit:5} % cum % |  {unit:11} % cum %");
    let [reads, writes] = [sizes.reads, sizes.writes].map(|counts| counts.iter().sum::<u64>());
    let percent = |count: u64, total: u64| (count * 100).checked_div(total).unwrap_or(0);
    let (mut read, mut written) = (0, 0);
    for (place, (r, w)) in sizes.reads.iter().zip(sizes.writes).enumerate() {
        (read, written) = (read + r, written + w);
        if read == 0 && written == 0 {
            continue;
        }
        let _ = writeln!(
            out,
            "{}:\t\t{r:10} {:3} {:3}   | {w:4} {:3} {:3}",
            label(place),
            percent(*r, reads),
            percent(read, reads),
            percent(w, writes),
            percent(written, writes)
        );
        if read == reads && written == writes {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Counter;

    const BEGUN: Duration = Duration::from_secs(1_795_000_000);

    fn wrote() -> Counters {
        let bytes = Counter { samples: 2, min: 4096, max: 8192, sum: 12288, squares: 83_886_080 };
        let time = Counter { samples: 1, min: 30, max: 30, sum: 30, squares: 900 };
        Counters::from([("write_bytes", bytes), ("punch", time)])
    }

    #[test]
    fn counters_are_shown_as_by_a_kernel_ost() {
        let now = BEGUN + Duration::from_micros(2_500_000);
        assert_eq!(
            stats(&wrote(), now, BEGUN),
            "snapshot_time                       1795000002.500000000 secs.nsecs\n\
             start_time                          1795000000.000000000 secs.nsecs\n\
             elapsed_time                        2.500000000 secs.nsecs\n\
             write_bytes                         2 samples [bytes] 4096 8192 12288 83886080\n\
             punch                               1 samples [usecs] 30 30 30 900\n"
        );
    }

    #[test]
    fn jobs_are_shown_as_yaml_whatever_their_names_are() {
        assert_eq!(job_stats(&[]), "job_stats:\n");
        let tally = Tally { begun: 1_795_000_000, last: 1_795_000_002, counters: wrote() };
        let text = job_stats(&[(b"dd.0".to_vec(), tally)]);
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

    #[test]
    fn histograms_end_with_the_last_that_was_counted() {
        let mut brw = BrwStats::default();
        (brw.pages.reads[0], brw.pages.reads[8], brw.pages.writes[8]) = (1, 3, 2);
        let text = brw_stats(&brw, BEGUN, BEGUN);
        let pages: Vec<&str> = text.lines().skip(4).take(12).collect();
        assert_eq!(pages[0], "                           read      |     write");
        assert_eq!(pages[1], "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %");
        assert_eq!(pages[2], "1:\t\t         1  25  25   |    0   0   0");
        assert_eq!(pages[10], "256:\t\t         3  75 100   |    2 100 100");
        assert_eq!(pages[11], "");
        assert_eq!((power(12), power(20), power(31)), ("4K".into(), "1M".into(), "2G".into()));
    }
}
