//! Network namespaces: entering and creating them, and running programs in them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::LinkError;

/// The directory of iproute2's names.
pub(crate) const NAMES: &str = "/run/netns";

/// Returns the file of a namespace: a name of iproute2, or a path such as
/// `/proc/1234/ns/net`.
fn file_of(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMES).join(name) }
}

/// Runs `work` on its own thread in a network namespace, and returns its result. Devices, sockets
/// and files of /proc/sys/net that it opens belong to the namespace, and so do programs that it
/// starts.
///
/// # Errors
/// If there is no such namespace, or no permission to enter it.
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

/// A network namespace of this process. It is removed when this is dropped; programs that still run
/// there get SIGHUP, and SIGKILL 0.2 s later.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// Creates a namespace with its loopback interface up.
    ///
    /// # Errors
    /// If the system refuses it.
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

    /// Runs ip(8) on the namespace and returns its output.
    ///
    /// # Errors
    /// Returns the output of a failed command.
    pub fn ip(&self, words: &[&str]) -> Result<String, LinkError> {
        ip(&[&["-n", &self.0], words].concat())
    }

    /// Returns a command that runs a program in the namespace. The program is killed when the
    /// thread that starts it ends, so that no program is left there.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// The same with the mounts of this process, so that both see what the other mounts.
    pub fn command_here(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", file_of(&self.0).display()));
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// Runs a program in the namespace and returns its output.
    ///
    /// # Errors
    /// Returns the output of a failed program.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LinkError> {
        output(self.command(Path::new(program)).args(args))
    }

    /// Connects `interface` of this namespace and an interface of another by a virtual cable, and
    /// waits until both are up.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn cable(&self, interface: &str, to: (&Self, &str)) -> Result<(), LinkError> {
        let (other, their) = to;
        let ends = ["link", "add", interface, "netns", &self.0, "type", "veth", "peer", "name"];
        ip(&[&ends[..], &[their, "netns", &other.0]].concat())?;
        self.ip(&["link", "set", interface, "up"])?;
        other.ip(&["link", "set", their, "up"])?;
        self.wait_for_carrier(interface).and_then(|()| other.wait_for_carrier(their))
    }

    /// Waits until the kernel reports that both ends of an interface's cable are up.
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
    /// If the system refuses it.
    pub fn add_address(&self, interface: &str, address: &str) -> Result<(), LinkError> {
        // Without this an IPv6 address could not be used before duplicate address detection.
        let last = if address.contains(':') { &["nodad"][..] } else { &[] };
        self.ip(&[&["address", "add", address, "dev", interface], last].concat()).map(drop)
    }

    /// Moves this thread into the namespace until the returned guard is dropped. Threads that it
    /// starts in between stay there.
    ///
    /// # Errors
    /// If there is no permission to enter it.
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

/// A guard: the thread is in another namespace, and returns when this is dropped.
#[derive(Debug)]
pub struct Visit {
    home: File,
}

impl Drop for Visit {
    fn drop(&mut self) {
        enter(&self.home, "home").expect("a thread may return to its first namespace");
    }
}

/// The time that programs in a namespace have to end.
const GRACE: Duration = Duration::from_millis(200);

/// Removes a namespace. Programs there lose their network, so they get SIGHUP as from a closed
/// terminal: shells and most daemons end. Others are killed: they would keep the namespace alive
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
    // Another process may have removed it.
    let _ = ip(&["netns", "delete", name]);
}

/// Returns the processes in a namespace, except this one.
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

/// Runs ip(8) in the namespace of the thread, and returns its output.
pub(crate) fn ip(words: &[&str]) -> Result<String, LinkError> {
    output(Command::new("ip").args(words))
}

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// Returns the output of a failed program.
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
    if output.status.success() {
        Ok(text)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(LinkError::Command(format!("'{line}' failed: {text}{}", errors.trim())))
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
