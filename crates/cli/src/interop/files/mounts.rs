//! Mounts a file system twice, and checks it.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_client::{Address, ClientNode, MountOptions, SessionOptions, blocking};
use fulmar_fuse::Mount;
use tokio::signal::unix::{SignalKind, signal};

use super::run::{Settings, check};

/// The file system to check, and the local settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file system.
    pub address: Address,
    /// How its servers are reached.
    pub session: SessionOptions,
    /// How the checks are made.
    pub settings: Settings,
}

/// Mounts the file system twice, makes all checks, prints the result of each, and returns whether all passed. What it
/// has made is removed at the end.
///
/// # Errors
/// Why no check could run.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Box<dyn Error>> {
    let scratch = std::env::temp_dir().join(format!("fulmar-interop-{}", std::process::id()));
    let mounts = Mounts::start(options, &scratch);
    let checked = mounts.and_then(|mounts| {
        let (address, seconds) = (&options.address, options.settings.time.as_secs());
        writeln!(out, "Two mounts of {address}; each random check takes {seconds} s.\n")?;
        let [one, two] = mounts.directories();
        let passed = check(&one, &two, &options.settings, out)?;
        mounts.end();
        Ok(passed)
    });
    let _ = std::fs::remove_dir_all(&scratch);
    checked
}

/// Both mounts. They share a node, since a node has its address for itself, but are clients of their own to the servers.
struct Mounts {
    mounted: Vec<Mount>,
    scratch: PathBuf,
}

impl Mounts {
    fn start(options: &Options, scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let node = ClientNode::start(&options.address.mgs, options.session.clone())?;
        until_a_signal(options.settings.stop.clone());
        let mut this = Self { mounted: vec![], scratch: scratch.to_owned() };
        for directory in this.directories() {
            let mount = node.mount(&options.address, MountOptions::default());
            let file_system = blocking::wait(mount)
                .map_err(|error| format!("mounting {}: {error}", options.address))?;
            std::fs::create_dir_all(&directory)?;
            let fuse = fulmar_fuse::Options::default();
            let mounted = Mount::start(file_system, &options.address, &directory, &fuse);
            let (mounted, _) = mounted.map_err(|error| {
                format!("mounting on {}: {error}. It needs root and /dev/fuse", directory.display())
            })?;
            this.mounted.push(mounted);
        }
        Ok(this)
    }

    fn directories(&self) -> [PathBuf; 2] {
        ["one", "two"].map(|name| self.scratch.join(name))
    }

    fn end(mut self) {
        for mounted in self.mounted.drain(..) {
            mounted.unmount();
        }
    }
}

/// A signal ends the checks, not the process: it still has mounts to end, and a directory to remove.
fn until_a_signal(stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let int = signal(SignalKind::interrupt());
            let term = signal(SignalKind::terminate());
            let (Ok(mut int), Ok(mut term)) = (int, term) else { return };
            tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
            stop.store(true, Ordering::Relaxed);
        });
    });
}
