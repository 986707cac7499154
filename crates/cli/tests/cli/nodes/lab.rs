//! Nodes of the binary, with a directory and a port that no other test uses.

use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use std::io::{ErrorKind, Read, Write};

use rustix::process::{Pid, Signal, kill_process};

/// Result of a command: its status, standard output and standard error.
pub(crate) type Ran = (i32, String, String);

/// Timeout of operations that take no time on an idle machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Directory and ports of the nodes of one test.
pub(crate) struct Lab {
    directory: PathBuf,
    /// Port of the acceptors. The next one is free too.
    pub(crate) port: u16,
}

impl Lab {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(format!("fulmar-nodes-{name}-{pid}-{count}"));
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory, port: fulmar_loopback::ports(2) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts a node on tcp at 127.0.0.`host`.
    pub(crate) fn node(&self, host: u8) -> Node {
        self.node_with(host, &["--networks", &format!("tcp(127.0.0.{host})")])
    }

    /// Starts a node and waits until it reports that it is ready.
    pub(crate) fn node_with(&self, host: u8, args: &[&str]) -> Node {
        self.start(host, self.command(args))
    }

    /// Starts a node that serves a whole file system from a directory.
    pub(crate) fn up(&self, host: u8, args: &[&str]) -> Node {
        self.start(host, self.command_of("up", args))
    }

    /// The same for a node that may open this number of files.
    pub(crate) fn node_with_files(&self, host: u8, files: u32, args: &[&str]) -> Node {
        let node = self.command(args);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
        shell.arg(node.get_program()).args(node.get_args()).current_dir(&self.directory);
        self.start(host, shell)
    }

    /// The same for a node that sees the mounts and the network of a process.
    pub(crate) fn node_within(&self, host: u8, process: u32, args: &[&str]) -> Node {
        let node = self.command(args);
        let mut within = self.within(process, node.get_program().as_ref());
        within.args(node.get_args());
        self.start(host, within)
    }

    /// Returns a command that runs a program in the directory, with the mounts and the network of a
    /// process.
    pub(crate) fn within(&self, process: u32, program: &Path) -> Command {
        let mut within = Command::new("nsenter");
        within.args(["--mount", "--net", "--target", &process.to_string(), "sh", "-c"]);
        within.arg("cd \"$0\" && exec \"$@\"").arg(&self.directory).arg(program);
        within
    }

    fn start(&self, host: u8, mut command: Command) -> Node {
        let notify = self.path(&format!("{host}.notify"));
        let _ = std::fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify).unwrap();
        ready.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (control, log) =
            (self.path(&format!("{host}.sock")), self.path(&format!("{host}.log")));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("FULMAR_CONTROL", &control).env("NOTIFY_SOCKET", &notify);
        command.stderr(std::fs::File::create(&log).unwrap());
        let node =
            Node { child: command.spawn().unwrap(), control, directory: self.directory.clone() };
        let mut state = [0; 64];
        let begun = Instant::now();
        // A read with a timeout ends also when the process is stopped and goes on.
        let received = loop {
            match ready.recv(&mut state) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        let len = received.unwrap_or_else(|error| {
            let (log, took) = (std::fs::read_to_string(&log).unwrap(), begun.elapsed());
            panic!("not ready after {took:?} ({error}): {log}")
        });
        assert_eq!(state[..len].trim_ascii_end(), b"READY=1");
        node
    }

    /// Runs a node that must fail to start.
    pub(crate) fn refused(&self, args: &[&str]) -> Ran {
        let control = self.path("refused.sock");
        ran(self.command(args).env("FULMAR_CONTROL", control).stderr(Stdio::piped()))
    }

    fn command(&self, args: &[&str]) -> Command {
        self.command_of("node", args)
    }

    fn command_of(&self, name: &str, args: &[&str]) -> Command {
        let mut command = fulmar(&self.directory);
        let port = self.port.to_string();
        command.args([name, "--accept", "all", "--accept-port", &port]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A running node.
pub(crate) struct Node {
    child: Child,
    control: PathBuf,
    directory: PathBuf,
}

impl Node {
    pub(crate) fn run(&self, words: &str) -> Ran {
        ran(&mut self.tool(words))
    }

    /// Runs a command whose words may have blanks.
    pub(crate) fn run_words(&self, words: &[String]) -> Ran {
        ran(self.tool("").args(words))
    }

    /// Runs `lst` in the session of a key.
    pub(crate) fn lst(&self, key: u32, words: &str) -> Ran {
        ran(self.tool(&format!("lst {words}")).env("LST_SESSION", key.to_string()))
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn output(&self, words: &str) -> String {
        let (status, out, err) = self.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words}\n{out}");
        out
    }

    /// Repeats a command until its output contains `part`, and returns that output.
    pub(crate) fn wait_for_output(&self, words: &str, part: &str) -> String {
        let begun = Instant::now();
        loop {
            let out = self.output(words);
            if out.contains(part) {
                return out;
            }
            assert!(begun.elapsed() < TIMEOUT, "{part:?} is missing in:\n{out}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Repeats a command until it succeeds, and returns its output.
    pub(crate) fn wait_for_success(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let (status, out, err) = self.run(words);
            if status == 0 {
                return out;
            }
            assert!(begun.elapsed() < TIMEOUT, "{words}: {err}\n{out}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Starts a command without waiting for it.
    pub(crate) fn begin(&self, words: &str) -> Child {
        self.tool(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn tool(&self, words: &str) -> Command {
        let mut command = fulmar(&self.directory);
        command.args(words.split_whitespace()).env("FULMAR_CONTROL", &self.control);
        command
    }

    /// Connects to the control socket.
    pub(crate) fn client(&self) -> UnixStream {
        UnixStream::connect(&self.control).unwrap()
    }

    /// Fetches a page from the control socket.
    pub(crate) fn get(&self, path: &str) -> String {
        fetch(self.client(), path)
    }

    /// Sends SIGTERM; returns the exit status of the node, and how long it took to end.
    pub(crate) fn terminate(mut self) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        while begun.elapsed() < TIMEOUT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), begun.elapsed());
            }
            sleep(Duration::from_millis(5));
        }
        panic!("SIGTERM does not end the node");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fetches a page from a TCP port.
pub(crate) fn get(address: &str, path: &str) -> String {
    fetch(TcpStream::connect(address).unwrap(), path)
}

fn fetch(mut stream: impl Read + Write, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn fulmar(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.current_dir(directory).stdin(Stdio::null());
    command
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
