//! The log of the process, as kernel nodes have one: lines to standard error, and the latest lines in
//! memory, which `lctl dk` prints. Masks select both while the node runs.
//! Spec: lnet-admin §20.8.
//!
//! Targets of events may end with the name of a type, such as `dlmtrace`; those of others have one by their level.
//!
//! What a mask leaves out costs nothing: `tracing` asks the filters once for each place in the code, and
//! again only after a change.
//!
//! Events of `tracing` go to standard error by their level, and those that the masks of a kernel
//! node select are lines of a ring in memory, bounded in bytes, which `lctl dk` takes out. The
//! masks are atomics; a filter answers once for each place in the code, and all are asked again
//! when a mask changes, so what is left out costs one comparison, as without a ring. Messages have
//! no such events: while a mask wants them, the node has an observer (`net::Admin::observe`, a
//! `Tap` that comes and goes) that writes a line for each. What targets say of requests, locks,
//! connections and configurations is in one file (`server::traced`): the end of the target of such
//! an event is its type, such as `fulmar_server::ldlm::dlmtrace`. `client::machine::told` is the
//! same for mounts: the process of a mount has a log and its parameters (`DebugLog`), which the
//! mount shows as attributes of its files (`client::Process`) beside the parameters of the mount.
//! `lctl` reads and sets those of the node and of all mounts of the machine, and merges their lines
//! by time.

mod files;
mod kind;
mod masks;
mod messages;
mod ring;

pub(crate) use files::{FILES, File, Rotor};

use std::fmt::{self, Write};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_control::masks::{ALWAYS, Masks};
use fulmar_net::{Tap, wall_clock};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use kind::{Kind, Selection};
use messages::Messages;
use ring::Ring;

/// The target of the lines that an administrator writes.
const MARKER: &str = "fulmar_daemon::debug::marker";
/// How many MiB of lines are kept, unless `debug_mb` is set.
const MEGABYTES: usize = 5;
/// The most that can be set.
const MEGABYTES_MAX: usize = 128;
const MEGABYTE: usize = 1 << 20;

/// What is kept in memory, and what is printed.
#[derive(Debug)]
pub(crate) struct Log {
    debug: Mask,
    subsystem_debug: Mask,
    printk: Mask,
    subsystem_printk: Mask,
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Mask(AtomicU32);

impl Mask {
    fn new(mask: u32) -> Self {
        Self(AtomicU32::new(mask))
    }

    fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            debug: Mask::new(Masks::Types.default_mask()),
            subsystem_debug: Mask::new(Masks::Subsystems.default_mask()),
            printk: Mask::new(ALWAYS),
            subsystem_printk: Mask::new(0),
            ring: Mutex::new(Ring::new(MEGABYTES * MEGABYTE)),
        }
    }
}

impl Log {
    /// Writes the events of the process to standard error, and keeps those that the masks select.
    /// `FULMAR_LOG` sets the level of the former.
    pub(crate) fn install(level: &str) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let by_level = EnvFilter::try_from_env("FULMAR_LOG").unwrap_or_else(|_| level.into());
        let printed = tracing_subscriber::fmt::layer()
            .with_target(false)
            // The reader of standard error may be gone.
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal())
            .with_writer(io::stderr)
            .with_filter(by_level.or(Selection::Printed(log.clone())));
        let kept = Keeper(log.clone()).with_filter(Selection::Kept(log.clone()));
        tracing_subscriber::registry().with(printed).with(kept).init();
        log
    }

    /// Returns whether lines of this kind are kept. Some are whatever the mask is.
    fn keeps(&self, kind: Kind) -> bool {
        kind.types & ALWAYS != 0
            || (kind.types & self.debug.get() != 0
                && kind.subsystem & self.subsystem_debug.get() != 0)
    }

    /// Returns whether lines of this kind are printed because of a mask.
    fn prints(&self, kind: Kind) -> bool {
        kind.types & self.printk.get() & !ALWAYS != 0
            || kind.subsystem & self.subsystem_printk.get() != 0
    }

    /// Changes a mask.
    fn set(&self, mask: &Mask, value: u32) {
        mask.0.store(value, Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Returns the observer of a node that some mask wants.
    fn observer(&self) -> Option<Arc<dyn Tap>> {
        let kind = Kind::messages();
        let wanted = self.keeps(kind) || self.prints(kind);
        wanted.then(|| Arc::new(Messages) as Arc<dyn Tap>)
    }

    /// Returns all lines that are kept, which are then no longer there.
    pub(crate) fn take(&self) -> Vec<Box<str>> {
        self.ring().take()
    }

    /// Returns the oldest lines up to so many bytes, which are then no longer there.
    pub(crate) fn take_up_to(&self, room: usize) -> String {
        self.ring().take_up_to(room)
    }

    /// Writes a line that an administrator can find again.
    pub(crate) fn mark(text: &str) {
        tracing::warn!(target: MARKER, "DEBUG MARKER: {text}");
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, event: &Event<'_>) {
        let Some(kind) = Kind::of(event.metadata()) else { return };
        let mut text = Text::default();
        event.record(&mut text);
        let mut ring = self.ring();
        let line = line(event, kind, ring.is_empty(), &text.0);
        ring.push(line);
    }
}

/// Returns a line of the log, as the tools of kernel nodes print it.
fn line(event: &Event<'_>, kind: Kind, is_first: bool, text: &str) -> String {
    let metadata = event.metadata();
    let at = Duration::from_nanos(wall_clock());
    let file = metadata.file().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let function = metadata.module_path().and_then(|path| path.rsplit("::").next());
    format!(
        "{:08x}:{:08x}:0.0{}:{}.{:06}:0:{}:0:({}:{}:{}()) {text}\n",
        kind.subsystem,
        kind.types,
        if is_first { "F" } else { "" },
        at.as_secs(),
        at.subsec_micros(),
        std::process::id(),
        file.display(),
        metadata.line().unwrap_or(0),
        function.unwrap_or(""),
    )
}

/// The layer that keeps lines.
struct Keeper(Arc<Log>);

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.keep(event);
    }
}

/// The message of an event, and behind it its fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("writing to a string succeeds");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` with a log of its own, and returns what it keeps, without times and places.
    fn kept(work: impl FnOnce(&Arc<Log>)) -> Vec<String> {
        let log = Arc::new(Log::default());
        let layer = Keeper(log.clone()).with_filter(Selection::Kept(log.clone()));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || work(&log));
        let parts = |line: &str| -> Option<String> {
            let (head, text) = line.split_once("()) ")?;
            let fields: Vec<&str> = head.split(':').collect();
            Some(format!("{}:{}:{} {text}", fields[0], fields[1], fields[2]))
        };
        log.take().iter().map(|line| parts(line).expect("a line has these parts")).collect()
    }

    #[test]
    fn masks_select_what_is_kept() {
        let node = "a";
        let work = || {
            tracing::warn!(target: "fulmar_net", node, "a warning");
            tracing::info!(target: "fulmar_server", "for the administrator");
            tracing::debug!(target: "fulmar_net", "dropped");
            tracing::trace!(target: messages::TARGET, "a message");
            tracing::trace!(target: "fulmar_server::rpc::rpctrace", "a request");
            tracing::trace!(target: "fulmar_server::ldlm::dlmtrace", "a lock");
            tracing::debug!(target: "fulmar_server::ldlm::ha", "a client");
            tracing::debug!(target: "fulmar_server::mgs::config", "a log");
            tracing::trace!(target: "fulmar_client::rpc::rpctrace", "a request of a mount");
            tracing::warn!(target: "hyper", "of others");
            Log::mark("hello world");
        };
        let always = [
            "00000400:00000400:0.0F a warning node=a\n",
            "00000020:02000000:0.0 for the administrator\n",
            "00000001:02000400:0.0 DEBUG MARKER: hello world\n",
        ];
        let with = |more: &[&str]| {
            let [first, second, marker] = always.map(str::to_owned);
            let more = more.iter().map(|line| (*line).to_owned());
            [first, second].into_iter().chain(more).chain([marker]).collect::<Vec<String>>()
        };
        let dropped = "00000400:00000100:0.0 dropped\n";
        let message = "00000400:00000200:0.0 a message\n";
        let request = "00000100:00100000:0.0 a request\n";
        let lock = "00010000:00010000:0.0 a lock\n";
        let own = "00000100:00100000:0.0 a request of a mount\n";
        let (client, log) = ("00010000:00080000:0.0 a client\n", "20000000:01000000:0.0 a log\n");
        assert_eq!(kept(|_| work()), with(&[dropped, client, log]));
        for (mask, more) in [
            (0, &[][..]),
            (0x200, &[message][..]),
            (0x300, &[dropped, message][..]),
            (0x10_0000, &[request, own][..]),
            (0x1_0000, &[lock][..]),
            (0x108_0000, &[client, log][..]),
            (u32::MAX, &[dropped, message, request, lock, client, log, own][..]),
        ] {
            let lines = kept(|log| {
                log.set(&log.debug, mask);
                assert_eq!(log.observer().is_some(), mask & 0x200 != 0);
                work();
            });
            assert_eq!(lines, with(more), "{mask:#x}");
        }
        let of_others = kept(|log| {
            log.set(&log.debug, u32::MAX);
            log.set(&log.subsystem_debug, 0x800);
            work();
        });
        assert_eq!(of_others, with(&[]));
    }

    #[test]
    fn a_line_is_that_of_a_kernel_node() {
        let log = Arc::new(Log::default());
        let layer = Keeper(log.clone()).with_filter(Selection::Kept(log.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::error!("{} of {}", 1, 2);
        });
        let lines = log.take();
        let [line] = &lines[..] else { panic!("not one line: {lines:?}") };
        let fields: Vec<&str> = line.splitn(8, ':').collect();
        assert_eq!(fields[..3], ["00000400", "00020000", "0.0F"]);
        let (seconds, micros) = fields[3].split_once('.').unwrap();
        assert!(seconds.parse::<u64>().unwrap() > 1 << 30 && micros.len() == 6, "{line}");
        assert_eq!(fields[5], std::process::id().to_string());
        assert!(
            fields[7].starts_with("(mod.rs:") && line.ends_with(":tests()) 1 of 2\n"),
            "{line}"
        );
        assert!(log.take().is_empty());
    }
}
