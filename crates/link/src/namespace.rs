//! Network namespaces: entering them by name, making them, and running programs in them.

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

/// Runs `work` on a thread of its own that is in a network namespace, and returns its result. What it
/// opens stays there: devices, sockets, and files of /proc/sys/net. So do programs that it starts.
///
/// # Errors
/// If there is no such namespace, or this process may not enter it.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
    let file = open(namespace)?;
    let inside = || {
        enter(&file, namespace)?;
        Ok(work())
    };
    thread::scope(|scope| {
        let worker = scope.spawn(inside);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn open(namespace: &str) -> Result<File, LinkError> {
    File::open(file_of(namespace))
        .map_err(|error| LinkError::NoNamespace { name: namespace.to_owned(), error })
}

/// Moves this thread into a namespace.
fn enter(namespace: &File, name: &str) -> Result<(), LinkError> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| LinkError::Enter { name: name.to_owned(), error: error.into() })
}

/// A network namespace of this process. It is removed when this is dropped; what still runs there
/// gets SIGHUP, and SIGKILL if it has not ended 0.2 s later.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// Makes a namespace, whose loopback interface is up.
    ///
    /// # Errors
    /// What the system refused.
    pub fn new(name: String) -> Result<Self, LinkError> {
        ip(&["netns", "add", &name])?;
        let this = Self(name);
        this.ip(&["link", "set", "lo", "up"])?;
        Ok(this)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Runs ip(8) on the namespace and returns what it prints.
    ///
    /// # Errors
    /// What it printed, if it failed.
    pub fn ip(&self, words: &[&str]) -> Result<String, LinkError> {
        ip(&[&["-n", &self.0], words].concat())
    }

    /// Returns a command that runs a program in the namespace. The program is killed when the thread
    /// that starts it ends, so that nothing is left there.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// Runs a program in the namespace and returns what it prints.
    ///
    /// # Errors
    /// What it printed, if it failed.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LinkError> {
        output(self.command(Path::new(program)).args(args))
    }

    /// Joins `interface` of this namespace and an interface of another by a virtual cable, and
    /// returns when both are up.
    ///
    /// # Errors
    /// What the system refused.
    pub fn cable(&self, interface: &str, to: (&Self, &str)) -> Result<(), LinkError> {
        let (other, their) = to;
        let ends = ["link", "add", interface, "netns", &self.0, "type", "veth", "peer", "name"];
        ip(&[&ends[..], &[their, "netns", &other.0]].concat())?;
        self.ip(&["link", "set", interface, "up"])?;
        other.ip(&["link", "set", their, "up"])?;
        self.wait_for_carrier(interface).and_then(|()| other.wait_for_carrier(their))
    }

    /// Waits until the kernel has noticed that both ends of an interface's cable are up.
    ///
    /// # Errors
    /// If it takes longer than five seconds.
    pub fn wait_for_carrier(&self, interface: &str) -> Result<(), LinkError> {
        let state = format!("/sys/class/net/{interface}/operstate");
        let script =
            "for _ in $(seq 500); do [ \"$(cat $0)\" = up ] && exit; sleep 0.01; done; exit 1";
        self.run("sh", &["-c", script, &state]).map(drop)
    }

    /// Adds an address such as `10.1.0.1/24` to an interface.
    ///
    /// # Errors
    /// What the system refused.
    pub fn add_address(&self, interface: &str, address: &str) -> Result<(), LinkError> {
        // Without this an IPv6 address could not be used before duplicates have been looked for.
        let last = if address.contains(':') { &["nodad"][..] } else { &[] };
        self.ip(&[&["address", "add", address, "dev", interface], last].concat()).map(drop)
    }

    /// Moves this thread into the namespace until the guard that is returned is dropped. Threads
    /// that it starts meanwhile stay there.
    ///
    /// # Errors
    /// If this process may not enter it.
    pub fn visit(&self) -> Result<Visit, LinkError> {
        let home = open("/proc/thread-self/ns/net")?;
        enter(&open(&self.0)?, &self.0)?;
        Ok(Visit { home })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// A thread is in another namespace, and returns when this is dropped.
#[derive(Debug)]
pub struct Visit {
    home: File,
}

impl Drop for Visit {
    fn drop(&mut self) {
        enter(&self.home, "home").expect("a thread may return to where it came from");
    }
}

/// How long programs in a namespace may take to end.
const GRACE: Duration = Duration::from_millis(200);

/// Removes a namespace. Programs there lose their network, so they get SIGHUP as by a terminal that
/// was closed: shells and most daemons end. Others are killed: they would keep the namespace alive
/// without a name.
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

/// Runs ip(8) in the namespace of the thread, and returns what it prints.
pub(crate) fn ip(words: &[&str]) -> Result<String, LinkError> {
    output(Command::new("ip").args(words))
}

/// Runs a program to its end and returns what it printed on standard output.
///
/// # Errors
/// What it printed, if it failed.
pub fn output(command: &mut Command) -> Result<String, LinkError> {
    let line = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let line = line();
    let output = command.output().map_err(|error| {
        let hint = if line.starts_with("ip ") { "; iproute2 is needed" } else { "" };
        LinkError::Command(format!("cannot run '{line}': {error}{hint}"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(LinkError::Command(format!("'{line}' failed: {text}{}", errors.trim())))
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
