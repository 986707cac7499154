//! Hosts in network namespaces, with the files of this machine and those of the package.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::page::Page;
use super::root;

/// What the package installs, in a directory, with a stand-in for systemctl. It is removed at the end.
pub(crate) struct Installation(PathBuf);

impl Installation {
    pub(crate) fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("fulmar-{name}-{}", std::process::id()));
        install(&directory, "/usr");
        let stand_in = directory.join("usr/local/bin/systemctl");
        fs::create_dir_all(stand_in.parent().unwrap()).unwrap();
        fs::copy(root().join("scripts/units.sh"), stand_in).unwrap();
        Self(directory)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Installs into a directory, with a prefix. Without a directory, the configuration is below the prefix too.
pub(crate) fn install(directory: &Path, prefix: &str) {
    let etc = if directory == Path::new("") { format!("{prefix}/etc") } else { "/etc".to_owned() };
    let mut command = Command::new(root().join("scripts/install.sh"));
    command.env("DESTDIR", directory).env("PREFIX", prefix).env("SYSCONFDIR", etc);
    let output = command.env("FULMAR", env!("CARGO_BIN_EXE_fulmar")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The hosts of a page. All that runs on them ends with it.
pub(crate) struct Lab {
    child: Child,
    /// It ends when nothing more can be asked.
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    shared: PathBuf,
}

/// What has come of commands.
pub(crate) struct Ran {
    /// The command that has failed first.
    pub(crate) failed: Option<String>,
    pub(crate) output: String,
}

/// A page that takes longer hangs.
const SECONDS: &str = "300";

impl Lab {
    pub(crate) fn start(installed: &Installation, page: &Page) -> Self {
        let name = page.path.replace('/', "-");
        let shared = installed.0.join("labs").join(name);
        fs::create_dir_all(&shared).unwrap();
        let hosts = page.hosts.iter().map(|(name, own)| format!("{name}={}", own.join(",")));
        let mut child = Command::new("timeout")
            .args([
                "-s",
                "KILL",
                SECONDS,
                "unshare",
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
            ])
            .args([
                "--mount-proc",
                "bash",
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/guide/lab.sh"),
            ])
            .arg(&installed.0)
            .arg(&shared)
            .args(hosts)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, answers, shared }
    }

    /// Runs commands in the shell of a host.
    pub(crate) fn run(&mut self, host: &str, commands: &str) -> Ran {
        fs::write(self.shared.join("block"), commands).unwrap();
        let mut answer = String::new();
        let asked = writeln!(self.input.as_ref().unwrap(), "{host}");
        let read = asked.and_then(|()| self.answers.read_line(&mut answer));
        let output = fs::read_to_string(self.shared.join("output")).unwrap_or_default();
        let failed = match (read, answer.trim_end()) {
            (Ok(1..), "") => None,
            (Ok(1..), command) => Some(command.to_owned()),
            _ => Some("the hosts have ended".to_owned()),
        };
        Ran { failed, output }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
