//! `fulmar trace`: the RPCs of a mount, as they end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fulmar_base::{Errno, quantity};
use fulmar_client::special::{TRACE, TraceEntry, TracePart, read_trace};
use fulmar_lustre_wire::Status as RpcStatus;
use fulmar_text::{Table, bytes, duration, grouped, left, pattern, right};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::context::{Status, complain, print};
use crate::mounts::{attribute, mounts};

/// Show the RPCs of a mount by fulmar, live
///
/// A line for each RPC that has ended: the time when it was sent, the target, the operation with its intent, the
/// file, the bytes of data, the time until the reply, and the status. Callbacks of servers about locks have no such
/// time. Names are those of requests, or those that the mount has in its cache; a FID is that of the file, and for a
/// change of a directory that of the directory. Pings and connects are not shown.
///
/// A mount notes its RPCs only while somebody reads them, 8,192 at most; what was dropped since is told. It ends
/// with Ctrl-C, after the time of --for, or with the mount. Only the superuser may look.
///
/// Exit status: 0; 1 if the RPCs cannot be read; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A path on the mount; by default the only mount of this machine
    #[arg(value_name = "MOUNT")]
    mount: Option<PathBuf>,
    /// Only RPCs of targets like this: lustre-OST0001, or *OST*
    #[arg(long, value_name = "PATTERN")]
    target: Option<String>,
    /// Only operations with this word: LDLM_ENQUEUE, OPEN, OST_WRITE
    #[arg(long, value_name = "NAME")]
    op: Option<String>,
    /// Only RPCs that took longer
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    slower_than: Option<Duration>,
    /// At the end, print counts and latencies of each operation
    #[arg(long)]
    summary: bool,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    time: Option<Duration>,
}

const EXAMPLES: &str = "Examples:
  fulmar trace /mnt/lustre
  fulmar trace --slower-than 200ms --target '*-OST*' /mnt/lustre
  fulmar trace --op OPEN --summary --for 10s /mnt/lustre";

/// How often the mount is asked.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn main(args: &Args) -> ExitCode {
    ExitCode::from(args.run().unwrap_or_else(|why| {
        complain(&format!("fulmar trace: {why}\n"));
        1
    }))
}

impl Args {
    fn run(&self) -> Result<Status, String> {
        let mount = self.mount()?;
        let mut signals = Signals::take().map_err(|error| format!("signals: {error}"))?;
        let begun = Instant::now();
        let mut summary = Summary::default();
        let mut next = ask(&mount, "now").map_err(|errno| told(&mount, errno))?.next;
        let mut is_over = false;
        while !is_over {
            let left = self.time.map(|time| time.saturating_sub(begun.elapsed()));
            let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
            is_over = signals.wait(pause) || left.is_some_and(|left| left.is_zero());
            loop {
                let Ok(part) = ask(&mount, &next.to_string()) else {
                    // The mount has ended.
                    is_over = true;
                    break;
                };
                next = part.next;
                self.show(&part, &mut summary);
                if part.entries.is_empty() {
                    break;
                }
            }
        }
        if self.summary {
            print(&summary.text());
        }
        Ok(0)
    }

    /// Returns a path on the mount.
    fn mount(&self) -> Result<PathBuf, String> {
        let all = mounts();
        match (&self.mount, all.as_slice()) {
            (Some(path), all) => {
                let whole = path.canonicalize();
                let whole = whole.map_err(|error| format!("{}: {error}", path.display()))?;
                if all.iter().any(|mount| whole.starts_with(mount)) {
                    Ok(whole)
                } else {
                    let path = path.display();
                    Err(format!("{path} is on no file system that is mounted by fulmar"))
                }
            }
            (None, [mount]) => Ok(mount.clone()),
            (None, []) => Err("nothing is mounted by fulmar here".to_owned()),
            (None, _) => Err("there are several mounts: name one".to_owned()),
        }
    }

    fn show(&self, part: &TracePart, summary: &mut Summary) {
        let mut text = match part.dropped {
            0 => String::new(),
            count => format!("-- {} RPCs were dropped\n", grouped(count)),
        };
        for entry in part.entries.iter().filter(|entry| self.wants(entry)) {
            text += &line(entry);
            summary.add(entry);
        }
        print(&text);
    }

    fn wants(&self, entry: &TraceEntry) -> bool {
        let has_target = self
            .target
            .as_ref()
            .is_none_or(|wanted| pattern::is_like(wanted.as_bytes(), entry.target.as_bytes()));
        let has_op = self.op.as_ref().is_none_or(|wanted| {
            let mut words = entry.operation.split([' ', '|', '_']);
            let is_word = words.any(|word| word.eq_ignore_ascii_case(wanted));
            let opcode = entry.operation.split(' ').next().unwrap_or_default();
            is_word || [opcode, &entry.operation].iter().any(|one| one.eq_ignore_ascii_case(wanted))
        });
        let is_slow =
            self.slower_than.is_none_or(|limit| entry.took.is_some_and(|took| took > limit));
        has_target && has_op && is_slow
    }
}

fn ask(mount: &Path, from: &str) -> Result<TracePart, Errno> {
    let value = attribute(mount, &[TRACE, from.as_bytes()].concat())?;
    read_trace(&value)
}

fn told(mount: &Path, errno: Errno) -> String {
    let why = match errno {
        Errno::EPERM => "only the superuser may see the RPCs of a mount".to_owned(),
        errno => errno.to_string(),
    };
    format!("{}: {why}", mount.display())
}

fn line(entry: &TraceEntry) -> String {
    let TraceEntry { at, target, took, bytes: len, status, fid, operation, name } = entry;
    let seconds = at.as_secs() % (24 * 3600);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let took = took.map_or("-".to_owned(), duration);
    let status = match status {
        0 => "ok".to_owned(),
        status => RpcStatus(*status).to_string(),
    };
    let mut text = format!(
        "{hours:02}:{minutes:02}:{:02}.{:06} {target:<14} {took:>8} {status:<8} {operation}",
        seconds % 60,
        at.subsec_micros()
    );
    if let Some(fid) = fid {
        text += &format!(" {fid}");
    }
    if !name.is_empty() {
        text += &format!(" {name}");
    }
    if *len > 0 {
        text += &format!(" {}", bytes(*len));
    }
    text + "\n"
}

/// The RPCs by operation.
#[derive(Debug, Default)]
struct Summary(BTreeMap<String, Operation>);

#[derive(Debug, Default)]
struct Operation {
    failed: u64,
    count: u64,
    latencies: Vec<Duration>,
}

/// The most latencies of an operation that are remembered: more are not looked at in percentiles.
const LATENCIES_MAX: usize = 1 << 20;

impl Summary {
    fn add(&mut self, entry: &TraceEntry) {
        let operation = self.0.entry(entry.operation.clone()).or_default();
        operation.count += 1;
        operation.failed += u64::from(entry.status < 0);
        if operation.latencies.len() < LATENCIES_MAX {
            operation.latencies.extend(entry.took);
        }
    }

    fn text(&self) -> String {
        let heads = ["p50", "p99", "max"].map(right);
        let columns = [left("operation"), right("count"), right("failed")];
        let mut table = Table::new(columns.into_iter().chain(heads));
        for (name, operation) in &self.0 {
            let mut latencies = operation.latencies.clone();
            latencies.sort_unstable();
            let at = |percent: usize| {
                let rank = (latencies.len() * percent).div_ceil(100).max(1) - 1;
                latencies.get(rank).map_or("-".to_owned(), |time| duration(*time))
            };
            let counts = [grouped(operation.count), grouped(operation.failed)];
            table.row([name.clone()].into_iter().chain(counts).chain([50, 99, 100].map(at)));
        }
        table.to_string()
    }
}

/// The signals that end the trace.
struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(within);
        Ok(Self { runtime, interrupt, terminate })
    }

    /// Waits, and returns whether a signal has come.
    fn wait(&mut self, time: Duration) -> bool {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => true,
                _ = self.terminate.recv() => true,
                () = tokio::time::sleep(time) => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::parsed;

    fn args(words: &str) -> Args {
        parsed(&format!("trace {words}")).unwrap()
    }

    fn entry(operation: &str, millis: u64) -> TraceEntry {
        TraceEntry {
            at: Duration::from_micros(86_400_000_000 + 3_661_000_002),
            target: "lv-OST0001".to_owned(),
            took: Some(Duration::from_millis(millis)),
            bytes: 4096,
            status: -13,
            fid: "[0x200000401:0x2:0x0]".parse().ok(),
            operation: operation.to_owned(),
            name: "file".to_owned(),
        }
    }

    #[test]
    fn a_line_says_what_an_rpc_was_about() {
        assert_eq!(
            line(&entry("OST_WRITE", 51)),
            "01:01:01.000002 lv-OST0001        51 ms EACCES   OST_WRITE [0x200000401:0x2:0x0] file 4 KiB\n"
        );
    }

    #[test]
    fn rpcs_are_selected() {
        let open = entry("LDLM_ENQUEUE OPEN|CREAT", 51);
        for words in ["", "--op open", "--op LDLM_ENQUEUE", "--target *OST*", "--slower-than 50ms"]
        {
            assert!(args(words).wants(&open), "{words}");
        }
        for words in ["--op OST_WRITE", "--target *MDT*", "--slower-than 51ms"] {
            assert!(!args(words).wants(&open), "{words}");
        }
        let callback = TraceEntry { took: None, ..open };
        assert!(args("").wants(&callback) && !args("--slower-than 1ms").wants(&callback));
    }

    #[test]
    fn the_summary_has_percentiles_of_each_operation() {
        let mut summary = Summary::default();
        (1..=100).for_each(|millis| summary.add(&entry("OST_READ", millis)));
        summary.add(&TraceEntry { took: None, ..entry("LDLM_BL_CALLBACK", 0) });
        let text = summary.text();
        let words =
            |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(0), ["operation", "count", "failed", "p50", "p99", "max"]);
        assert_eq!(words(1), ["LDLM_BL_CALLBACK", "1", "1", "-", "-", "-"]);
        assert_eq!(words(2), ["OST_READ", "100", "100", "50", "ms", "99", "ms", "100", "ms"]);
    }
}
