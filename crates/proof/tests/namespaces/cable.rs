//! Two network namespaces with a cable between them, and programs that run there.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);
/// The addresses of the two namespaces, the first and the second.
pub(crate) const IPV4: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
pub(crate) const IPV6: [&str; 2] = ["fd00:77::1", "fd00:77::2"];

/// Two network namespaces joined by a veth pair; they go when this goes.
pub(crate) struct Cable {
    tag: String,
}

impl Cable {
    /// Makes the namespaces. `None`, said loudly, if that is not allowed here.
    ///
    /// `test` is a letter that no other test has.
    pub(crate) fn new(test: char) -> Option<Self> {
        if !is_root() {
            not_run("network namespaces need root: run the tests with sudo");
            return None;
        }
        let this = Self { tag: format!("fp{test}{}", std::process::id()) };
        let made = this.make();
        if let Err(why) = made {
            not_run(&format!("no network namespaces here: {why}"));
            return None;
        }
        Some(this)
    }

    fn make(&self) -> Result<(), String> {
        let [a, b] = [self.namespace(0), self.namespace(1)];
        ip(&["netns", "add", &a])?;
        ip(&["netns", "add", &b])?;
        let (va, vb) = (self.interface(0), self.interface(1));
        ip(&["link", "add", &va, "netns", &a, "type", "veth", "peer", "name", &vb, "netns", &b])?;
        for side in 0..2 {
            let (namespace, interface) = (self.namespace(side), self.interface(side));
            let (v4, v6) = (format!("{}/24", IPV4[side]), format!("{}/64", IPV6[side]));
            ip(&["-n", &namespace, "address", "add", &v4, "dev", &interface])?;
            ip(&["-n", &namespace, "address", "add", &v6, "dev", &interface, "nodad"])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", &namespace, "link", "set", &interface, "up"])?;
        }
        Ok(())
    }

    fn namespace(&self, side: usize) -> String {
        format!("{}n{side}", self.tag)
    }

    /// Returns the name of the end of the cable in a namespace.
    pub(crate) fn interface(&self, side: usize) -> String {
        format!("{}v{side}", self.tag)
    }

    /// Returns a command that runs a program in a namespace.
    pub(crate) fn command(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(side), program]);
        command
    }

    /// Starts a node that offers memory, and waits until it does.
    pub(crate) fn serve(&self, side: usize, address: &str) -> Program {
        let mut command = self.command(side, PEER);
        let mut program = Program::start(command.args(["serve", address]));
        program.wait_for("ready");
        program
    }

    /// Runs a program of the peer to its end and returns what it printed.
    pub(crate) fn run(&self, side: usize, args: &[&str]) -> String {
        let output = self.command(side, PEER).args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} printed {text}{errors}");
        text
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for side in 0..2 {
            // One of them may never have been made.
            let _ = ip(&["netns", "delete", &self.namespace(side)]);
        }
    }
}

/// A program that runs until it is told to end.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    /// What it has printed so far, as far as anybody has looked.
    printed: String,
}

impl Program {
    /// Starts a program that talks on standard output and, if it is given none, error.
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (sender, lines) = channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self { child, lines, printed: String::new() }
    }

    /// Waits for a line that begins like this.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, start: &str) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.printed += &format!("{line}\n");
                    if line.starts_with(start) {
                        return;
                    }
                }
                Err(error) => panic!("no {start:?} ({error}) in:\n{}", self.printed),
            }
        }
    }

    /// Interrupts the program, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let script = format!("kill -INT {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Ends its input, waits for its end, and returns what it printed.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.printed += &format!("{line}\n");
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.printed);
        std::mem::take(&mut self.printed)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says, where even a test that passes is heard, that it did not run.
pub(crate) fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "\nNOT RUN: {why}");
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout == b"0\n")
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("cannot run ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "ip {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

const PEER: &str = env!("CARGO_BIN_EXE_fulmar-proof-peer");
