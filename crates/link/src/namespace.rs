//! Network namespaces by name: going there for a moment, and making them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::LinkError;

/// Where iproute2 keeps the names.
pub(crate) const NAMES: &str = "/run/netns";

/// Returns the file of a namespace: one of iproute2's names, or a path such as
/// `/proc/1234/ns/net`.
fn file_of(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => Path::new(NAMES).join(name),
    }
}

/// Runs `work` on a thread of its own that is in a network namespace, and returns what it returns.
/// What it opens stays there: devices, sockets, and files of /proc/sys/net. So do programs that it
/// starts.
///
/// # Errors
/// If there is no such namespace, or this process may not enter it.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
    let name = || namespace.to_owned();
    let file = File::open(file_of(namespace))
        .map_err(|error| LinkError::NoNamespace { name: name(), error })?;
    let inside = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| LinkError::Enter { name: name(), error: error.into() })?;
        Ok(work())
    };
    thread::scope(|scope| {
        let worker = scope.spawn(inside);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A namespace that goes when this goes.
#[derive(Debug)]
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn new(name: String) -> Result<Self, LinkError> {
        ip(&["netns", "add", &name])?;
        let this = Self(name);
        within(&this.0, || ip(&["link", "set", "lo", "up"]))??;
        Ok(this)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// How long what runs in a namespace may take to end.
const GRACE: Duration = Duration::from_millis(200);

/// Removes a namespace of ours. What runs there has lost its network, and is told so as by a
/// terminal that is gone: shells and most daemons end. What does not is killed: it would keep the
/// namespace, and nobody would find it there without the name.
pub(crate) fn remove(name: &str) {
    let end = Instant::now() + GRACE;
    let mut inside = running(name);
    signal(&inside, Signal::HUP);
    while !inside.is_empty() && Instant::now() < end {
        thread::sleep(GRACE / 20);
        inside = running(name);
    }
    signal(&inside, Signal::KILL);
    // Somebody else may have been faster.
    let _ = ip(&["netns", "delete", name]);
}

/// Returns what runs in a namespace, but for this process.
fn running(name: &str) -> Vec<Pid> {
    let listed = Command::new("ip").args(["netns", "pids", name]).output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let processes = text.lines().filter_map(|id| id.trim().parse().ok().and_then(Pid::from_raw));
    processes.filter(|id| *id != getpid()).collect()
}

fn signal(processes: &[Pid], signal: Signal) {
    for process in processes {
        // It may have ended.
        let _ = kill_process(*process, signal);
    }
}

/// Runs ip(8) where the thread is, and returns what it prints.
pub(crate) fn ip(words: &[&str]) -> Result<String, LinkError> {
    let line = words.join(" ");
    let output = Command::new("ip").args(words).output().map_err(|error| {
        LinkError::Command(format!("cannot run 'ip {line}': {error}; iproute2 is needed"))
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(LinkError::Command(format!("'ip {line}' failed: {}", said.trim())))
        }
    }
}

/// Sets a value below /proc/sys/net of the namespace, such as `ipv4/tcp_rmem`.
pub(crate) fn set(name: &str, setting: &str, value: &str) -> Result<(), LinkError> {
    within(name, || {
        std::fs::write(Path::new("/proc/sys/net").join(setting), value).map_err(|error| {
            LinkError::Setting {
                setting: format!("net.{}", setting.replace('/', ".")),
                value: value.to_owned(),
                namespace: name.to_owned(),
                error,
            }
        })
    })?
}
