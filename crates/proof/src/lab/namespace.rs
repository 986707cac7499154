//! Network namespaces that go, whatever happens.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// What the names of our namespaces begin with; the number of the process that made them follows.
pub(super) const PREFIX: &str = "fulmar-lab-";
/// Where iproute2 keeps the names.
const NAMES: &str = "/run/netns";

/// A network namespace; it goes when this goes, and so must everything in it before.
#[derive(Debug)]
pub(super) struct Namespace(String);

impl Namespace {
    pub(super) fn new(name: String) -> Result<Self, String> {
        ip(&["netns", "add", &name])?;
        let this = Self(name);
        this.ip(&["link", "set", "lo", "up"])?;
        Ok(this)
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// Returns a command that runs a program in the namespace. The program is killed when the
    /// thread that starts it ends, so that nothing of a test outlives it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// Runs `ip` on the namespace.
    pub(super) fn ip(&self, args: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.0], args].concat())
    }

    /// Runs a program in the namespace and returns what it printed.
    pub(super) fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        run(self.command(Path::new(program)).args(args))
    }
}

impl Namespace {
    /// Moves this thread there, until what is returned goes.
    pub(super) fn visit(&self) -> Result<Visit, String> {
        let open = |path: &Path| {
            File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))
        };
        let home = open(Path::new("/proc/thread-self/ns/net"))?;
        enter(&open(&Path::new(NAMES).join(&self.0))?)
            .map_err(|error| format!("cannot enter {}: {error}", self.0))?;
        Ok(Visit { home })
    }
}

/// A thread is in a namespace, and goes home when this goes.
pub(super) struct Visit {
    home: File,
}

impl Drop for Visit {
    fn drop(&mut self) {
        enter(&self.home).expect("a thread that came from there may go back");
    }
}

fn enter(namespace: &File) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

/// Says whether whoever runs this may have namespaces.
///
/// # Errors
/// Why not, and what to do.
pub fn check_allowed() -> Result<(), String> {
    let id = run(Command::new("id").arg("-u"))?;
    match id.trim() {
        "0" => Ok(()),
        _ => Err("network namespaces need root: run it with sudo".into()),
    }
}

/// Removes what runs have left behind that are no more: namespaces, and directories in `directory`.
pub(super) fn sweep(directory: &Path) {
    for name in left_behind(Path::new(NAMES)) {
        // Its programs were to die with it; one that was stopped may not have.
        for id in
            run(Command::new("ip").args(["netns", "pids", &name])).iter().flat_map(|s| s.lines())
        {
            let _ = run(Command::new("kill").args(["-KILL", id]));
        }
        // Somebody else may have been faster, here and below.
        let _ = ip(&["netns", "delete", &name]);
    }
    for name in left_behind(directory) {
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
}

/// Returns the names of what belongs to runs that are no more.
fn left_behind(directory: &Path) -> impl Iterator<Item = String> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let process = process.filter(|id| id.parse::<u32>().is_ok());
        process.is_some_and(|id| !Path::new("/proc").join(id).exists())
    })
}

pub(super) fn ip(args: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(args)).map(drop)
}

/// Runs a program to its end and returns what it printed.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?} failed: {}{}", text, errors.trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_left_behind_is_swept_up_when_it_is_no_more() {
        let ours = std::process::id();
        let place = std::env::temp_dir().join(format!("fulmar-sweep-{ours}"));
        // No process has the greatest number.
        let (dead, alive) = (format!("{PREFIX}{}-0", u32::MAX), format!("{PREFIX}{ours}-0"));
        let kept = [alive, "fulmar-lab-notes-0".to_owned(), format!("other-{}-0", u32::MAX)];
        for name in kept.iter().chain([&dead]) {
            std::fs::create_dir_all(place.join(name)).unwrap();
            std::fs::write(place.join(name).join("log"), "words").unwrap();
        }
        sweep(&place);
        assert!(!place.join(&dead).exists());
        for name in &kept {
            assert!(place.join(name).join("log").exists(), "{name}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
