//! A file system at one site, and its mount at the other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_link::{Namespace, Program, output};
use rustix::mount::{UnmountFlags, unmount};

use super::Settings;
use super::node::Runner;

/// Timeout of what needs a few round trips: the start of servers, a mount, its end.
const TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);
/// The OSTs of a file system.
const OSTS: u32 = 2;

/// The servers of a file system of an MDT and two OSTs, in one process. They end when this is dropped.
#[derive(Debug)]
pub struct Servers {
    program: Program,
    /// Dropped after the program, which needs the namespace.
    namespace: Arc<Namespace>,
}

/// A mount, which is removed when this is dropped.
#[derive(Debug)]
pub struct Mount {
    program: Program,
    at: PathBuf,
    _namespace: Arc<Namespace>,
}

impl Servers {
    /// Serves a directory, which is a new file system if it is empty or missing. `mounted`: where the
    /// process mounts it too, for the time that it runs.
    pub(super) fn start(
        runner: &Runner,
        namespace: &Arc<Namespace>,
        directory: &Path,
        settings: &Settings,
        mounted: Option<&Path>,
    ) -> Result<Self, String> {
        let name = format!("{}-servers", namespace.name());
        let config = runner.write_settings(&name, settings)?;
        let mut command = namespace.command_here(runner.fulmar());
        command.arg("up").arg(directory).args(["--osts", &OSTS.to_string()]).arg("-c").arg(config);
        if let Some(mountpoint) = mounted {
            create(mountpoint)?;
            command.arg("--mount").arg(mountpoint);
        }
        command.env("FULMAR_CONTROL", runner.path(&format!("{name}.sock")));
        let mut servers =
            Self { program: Program::start(&mut command)?, namespace: namespace.clone() };
        if let Some(mountpoint) = mounted {
            servers.wait_for("mounted", |_| is_mounted(mountpoint))?;
        }
        Ok(servers)
    }

    /// Waits until a client of another namespace sees all targets.
    pub(super) fn wait_until_seen(
        &mut self,
        runner: &Runner,
        by: &Namespace,
        address: &str,
    ) -> Result<(), String> {
        let last = format!("OST:{}", OSTS - 1);
        let mut command = by.command(runner.fulmar());
        command.args(["lfs", "df", "--timeout", "5", address]);
        self.wait_for("served", |_| output(&mut command).is_ok_and(|text| text.contains(&last)))
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Ends the servers, which have then everything on disk.
    ///
    /// # Errors
    /// If they do not end in time.
    pub fn end(mut self) -> Result<(), String> {
        self.program.signal("TERM")?;
        let end = Instant::now() + TIMEOUT;
        while !self.program.has_ended() {
            if Instant::now() > end {
                return Err(self.failure("do not end"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn wait_for(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Result<(), String> {
        let end = Instant::now() + TIMEOUT;
        while !holds(self) {
            if self.program.has_ended() || Instant::now() > end {
                return Err(self.failure(&format!("are not {what}")));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn failure(&mut self, what: &str) -> String {
        let printed = self.program.new_lines().join("\n");
        format!("the servers in {} {what}:\n{printed}", self.namespace.name())
    }
}

impl Mount {
    /// Mounts a file system on a directory, which all programs of this process see. Without `settings`
    /// the client has no configuration.
    pub(super) fn start(
        runner: &Runner,
        namespace: &Arc<Namespace>,
        address: &str,
        settings: Option<&Settings>,
    ) -> Result<Self, String> {
        let name = format!("{}-mount", namespace.name());
        let at = runner.path(&name);
        create(&at)?;
        let mut command = namespace.command_here(runner.fulmar());
        command.args(["mount", "--foreground", address]).arg(&at);
        if let Some(settings) = settings {
            let config = runner.write_settings(&name, settings)?;
            command.arg("-o").arg(format!("config={}", config.display()));
        }
        let program = Program::start(&mut command)?;
        let mut mount = Self { program, at, _namespace: namespace.clone() };
        let end = Instant::now() + TIMEOUT;
        while !is_mounted(&mount.at) {
            if mount.program.has_ended() || Instant::now() > end {
                let printed = mount.program.new_lines().join("\n");
                return Err(format!("{address} is not mounted:\n{printed}"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(mount)
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Ends the mount, and waits until the servers have everything.
    ///
    /// # Errors
    /// If it is in use, or does not end in time.
    pub fn end(mut self) -> Result<(), String> {
        let shown = self.at.display();
        unmount(&self.at, UnmountFlags::empty())
            .map_err(|errno| format!("cannot unmount {shown}: {errno}"))?;
        let end = Instant::now() + TIMEOUT;
        while !self.program.has_ended() {
            if Instant::now() > end {
                let printed = self.program.new_lines().join("\n");
                return Err(format!("the process of the mount {shown} does not end:\n{printed}"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It is gone after `end`.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

/// Returns why nothing can be mounted here, if that is so.
///
/// # Errors
/// What is missing.
pub fn check_mounts() -> Result<(), String> {
    let finds = |program: &str| {
        let found = Command::new(program).arg("--version").output();
        found.map(drop).map_err(|error| format!("cannot run {program}: {error}"))
    };
    if Path::new("/dev/fuse").exists() {
        finds("nsenter")
    } else {
        Err("there is no /dev/fuse".to_owned())
    }
}

fn create(directory: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot create {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)
}

/// Returns whether something is mounted on a directory.
fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == directory))
}
