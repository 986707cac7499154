//! What an administrator reads and sets of an OST while it runs, as the files of a kernel node.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_target::parameters::{Parameter, line, number, switch};
use fulmar_target::stats::{self, Tally};

use crate::Ost;
use crate::stats::{BrwStats, NAMES, Sizes};

impl Ost {
    /// Its parameters, in the order of their names.
    pub const PARAMETERS: &[Parameter<Self>] = &[
        Parameter::shown("obdfilter.*.blocksize", |ost, _| line(ost.size().ok()?.block_size)),
        Parameter::shown("obdfilter.*.brw_size", |ost, _| line(ost.settings.brw_size >> 20)),
        Parameter::set(
            "obdfilter.*.brw_stats",
            |ost, moment| Some(brw_stats(&ost.brw_stats(), moment.now, moment.started)),
            |ost, value| {
                ost.stats().brw = clear(value).map(|()| BrwStats::default())?;
                Ok(())
            },
        ),
        Parameter::shown("obdfilter.*.filesfree", |ost, _| line(ost.size().ok()?.free_files)),
        Parameter::shown("obdfilter.*.filestotal", |ost, _| line(ost.size().ok()?.files)),
        Parameter::shown("obdfilter.*.instance", |ost, _| line(ost.instance())),
        Parameter::set(
            "obdfilter.*.job_cleanup_interval",
            |ost, _| line(ost.stats().operations.jobs_kept()),
            |ost, value| {
                ost.stats().operations.keep_jobs(number(value)?);
                Ok(())
            },
        ),
        Parameter::set(
            "obdfilter.*.job_stats",
            |ost, moment| {
                Some(stats::job_stats(NAMES, &ost.job_stats(moment.now.as_secs() as i64)))
            },
            |ost, value| {
                ost.stats().operations.clear_jobs(value.trim().as_bytes());
                Ok(())
            },
        ),
        Parameter::shown("obdfilter.*.kbytesavail", |ost, _| kib(ost, |size| size.available)),
        Parameter::shown("obdfilter.*.kbytesfree", |ost, _| kib(ost, |size| size.free)),
        Parameter::shown("obdfilter.*.kbytestotal", |ost, _| kib(ost, |size| size.blocks)),
        Parameter::set(
            "obdfilter.*.no_create",
            |ost, _| line(u8::from(ost.creates_nothing.load(Ordering::Relaxed))),
            |ost, value| {
                ost.creates_nothing.store(switch(value)?, Ordering::Relaxed);
                Ok(())
            },
        ),
        Parameter::shown("obdfilter.*.num_exports", |_, moment| line(moment.exports)),
        Parameter::set(
            "obdfilter.*.reserved_mb",
            |ost, _| line(ost.data.reserved() >> 20),
            |ost, value| {
                ost.data.set_reserved(u64::from(number(value)?) << 20);
                Ok(())
            },
        ),
        Parameter::set(
            "obdfilter.*.stats",
            |ost, moment| {
                let counters = ost.total_stats().counters;
                Some(stats::stats(NAMES, &counters, moment.now, moment.started))
            },
            |ost, value| {
                clear(value)?;
                ost.stats().operations.clear_all();
                Ok(())
            },
        ),
        Parameter::shown("obdfilter.*.tot_dirty", |ost, _| line(ost.granted().dirty)),
        Parameter::shown("obdfilter.*.tot_granted", |ost, _| line(ost.granted().granted)),
        Parameter::shown("obdfilter.*.tot_pending", |ost, _| line(ost.granted().pending)),
        Parameter::set(
            "quota.ost",
            |_, _| None,
            |_, value| match value.trim() {
                "none" => Ok(()),
                _ => Err("an OST knows no limits of blocks: only none is accepted".to_owned()),
            },
        ),
    ];

    /// Returns the file `stats` of a node with these exports. `now`: since 1970.
    pub fn client_file(&self, exports: &[Handle], now: Duration) -> String {
        let mut all = Tally::default();
        for export in exports {
            all.merge(&self.client_stats(*export));
        }
        all.text(NAMES, now)
    }
}

fn kib(ost: &Ost, of: fn(&Statfs) -> u64) -> Option<String> {
    let size = ost.size().ok()?;
    line(of(&size).saturating_mul(u64::from(size.block_size)) >> 10)
}

/// Checks what is written to a file of counters.
fn clear(value: &str) -> Result<(), String> {
    match value.trim() {
        "clear" | "0" => Ok(()),
        value => Err(format!("{value:?} is not clear: only that is written")),
    }
}

/// Returns the histograms.
fn brw_stats(brw: &BrwStats, now: Duration, begun: Duration) -> String {
    let mut out = String::new();
    stats::times(&mut out, now, begun, 25, ":", "");
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

    const BEGUN: Duration = Duration::from_secs(1_795_000_000);

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
