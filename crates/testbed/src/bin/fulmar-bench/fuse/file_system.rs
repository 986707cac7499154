//! A file system whose servers run, and trials with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_testbed::lab::{Program, tree_cpu_seconds};

use super::Load;
use crate::Failure;
use crate::process::{Worker, with_cpu_time};

/// The servers of a file system, which end when this is dropped.
pub(crate) trait System {
    fn name(&self) -> &'static str;
    /// Returns the processes of the servers; what descends from them counts too.
    fn servers(&self) -> Vec<u32>;
    /// Returns the command that mounts it. Its process ends with the mount.
    fn mount(&self, at: &Path) -> Command;
}

/// The result of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) rate: f64,
    /// Processor seconds of the program, the mount and the servers.
    pub(super) cpu: f64,
}

pub(super) struct FileSystem {
    system: Box<dyn System>,
    shared: PathBuf,
    at: PathBuf,
}

impl FileSystem {
    /// `shared`: a directory of all systems, with their mounts.
    pub(super) fn new(system: Box<dyn System>, shared: &Path) -> Self {
        let at = shared.join(format!("{}-mount", system.name()));
        Self { system, shared: shared.to_owned(), at }
    }

    pub(super) fn name(&self) -> &'static str {
        self.system.name()
    }

    /// Makes what is used in all trials.
    pub(super) fn prepare(&mut self, load: Load) -> Result<(), Failure> {
        let mount = self.mount()?;
        load.prepare(&self.at, &self.shared)?;
        mount.end()
    }

    /// Mounts, measures, and ends the mount.
    pub(super) fn trial(&mut self, load: Load) -> Result<Trial, Failure> {
        let mount = self.mount()?;
        let text = serde_json::to_string(&load).expect("a load is plain");
        let paths = [&self.at, &self.shared].map(|path| path.to_string_lossy().into_owned());
        let before = self.cpu(&mount)?;
        let (seconds, own) = with_cpu_time(|| {
            let mut worker = Worker::start(&["fuse-load", &text, &paths[0], &paths[1]])?;
            let seconds = worker.number()?;
            worker.finish()?;
            Ok(seconds)
        })?;
        let cpu = self.cpu(&mount)? - before + own;
        load.tidy(&self.at)?;
        mount.end()?;
        Ok(Trial { rate: load.amount() / seconds, cpu })
    }

    fn cpu(&self, mount: &Mount) -> Result<f64, Failure> {
        let processes = self.system.servers().into_iter().chain([mount.program.id()]);
        processes.map(|process| tree_cpu_seconds(process).map_err(Failure)).sum()
    }

    fn mount(&self) -> Result<Mount, Failure> {
        Mount::start(&mut self.system.mount(&self.at), &self.at)
    }
}

/// A mount, which ends when it is dropped.
pub(crate) struct Mount {
    program: Program,
    at: PathBuf,
}

impl Mount {
    /// Starts a program that mounts something on a directory.
    pub(crate) fn start(command: &mut Command, at: &Path) -> Result<Self, Failure> {
        let made = std::fs::create_dir_all(at);
        made.map_err(Failure::io(format!("create {}", at.display())))?;
        let mut program = Program::start(command).map_err(Failure)?;
        until_mounted(at, &mut program)?;
        Ok(Self { program, at: at.to_owned() })
    }

    /// Ends the mount, and waits for its process: what it has not written yet is written.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let flags = rustix::mount::UnmountFlags::empty();
        rustix::mount::unmount(&self.at, flags)
            .map_err(|errno| Failure(format!("cannot unmount {}: {errno}", self.at.display())))?;
        while !self.program.has_ended() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It is gone after `end`.
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Waits until something is mounted on a directory.
fn until_mounted(at: &Path, program: &mut Program) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.metadata().map(|found| found.dev());
    let parent = at.parent().and_then(|parent| device(parent).ok());
    while device(at).ok() == parent {
        if program.has_ended() {
            let said = program.new_lines().join("; ");
            return Err(Failure(format!("{} is not mounted: {said}", at.display())));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}
