//! The client of the demonstration: a mount, or where that is not possible, `fulmar cp`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_link::{Namespace, output};

use crate::demo::ocean::{Mount, Settings, Sites, check_mounts};

const BLOCK: usize = 1 << 20;
/// How long servers may need until they are reached, and how often that is tried.
const READY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(300);
/// How many files are copied at once.
const JOBS: &str = "64";

pub(super) struct Client<'a> {
    sites: &'a Sites,
    namespace: Arc<Namespace>,
    access: Access,
}

enum Access {
    Mount(Mount),
    /// With an address and a configuration.
    Library(String, PathBuf),
}

impl<'a> Client<'a> {
    /// Connects to servers that may not be ready yet, and whose routes may not be known to be up.
    pub(super) fn connect(
        sites: &'a Sites,
        namespace: &Arc<Namespace>,
        address: &str,
        settings: &Settings,
        mounts: bool,
    ) -> Result<Self, String> {
        let is_mount = mounts && check_mounts().is_ok();
        let connected = || -> Result<Self, String> {
            let access = if is_mount {
                Access::Mount(sites.mount(namespace, address, Some(settings))?)
            } else {
                Access::Library(address.to_owned(), sites.runner().write_settings("cp", settings)?)
            };
            let client = Self { sites, namespace: namespace.clone(), access };
            if !is_mount {
                client.write("probe", 1)?;
            }
            Ok(client)
        };
        let begun = Instant::now();
        loop {
            match connected() {
                Err(_) if begun.elapsed() < READY => std::thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    /// Says how files are copied.
    pub(super) fn how(&self) -> &'static str {
        match self.access {
            Access::Mount(_) => "by programs in a mount",
            Access::Library(..) => "by fulmar cp, since nothing can be mounted here",
        }
    }

    /// Writes a large file.
    pub(super) fn write(&self, name: &str, len: u64) -> Result<(), String> {
        match &self.access {
            Access::Mount(mount) => write(&mount.path().join(name), len)
                .map_err(|error| format!("cannot write {name}: {error}")),
            Access::Library(..) => {
                let file = self.sites.runner().path("large");
                let made = File::create(&file).and_then(|file| file.set_len(len));
                made.map_err(|error| format!("cannot create {}: {error}", file.display()))?;
                self.copy(&file.display().to_string(), &self.remote(name))
            }
        }
    }

    /// Reads a large file.
    pub(super) fn read(&self, name: &str, len: u64) -> Result<(), String> {
        match &self.access {
            Access::Mount(mount) => match read(&mount.path().join(name)) {
                Ok(found) if found == len => Ok(()),
                Ok(found) => Err(format!("{name} has {found} bytes, not {len}")),
                Err(error) => Err(format!("cannot read {name}: {error}")),
            },
            Access::Library(..) => {
                let file = self.sites.runner().path("large");
                self.copy(&self.remote(name), &file.display().to_string())
            }
        }
    }

    /// Copies a tree of this machine to the servers.
    pub(super) fn send(&self, tree: &Path, name: &str) -> Result<(), String> {
        self.copy(&tree.display().to_string(), &self.remote(name))
    }

    /// Copies a tree of the servers to this machine.
    pub(super) fn fetch(&self, name: &str, to: &Path) -> Result<(), String> {
        self.copy(&self.remote(name), &to.display().to_string())
    }

    /// Ends it: the servers have everything.
    pub(super) fn end(self) -> Result<(), String> {
        match self.access {
            Access::Mount(mount) => mount.end(),
            Access::Library(..) => Ok(()),
        }
    }

    fn remote(&self, name: &str) -> String {
        match &self.access {
            Access::Mount(mount) => mount.path().join(name).display().to_string(),
            Access::Library(address, _) => format!("{address}/{name}"),
        }
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        let fulmar = self.sites.runner().fulmar();
        let mut command = self.namespace.command_here(fulmar);
        command.args(["cp", "-r", "--jobs", JOBS]);
        if let Access::Library(_, config) = &self.access {
            command.arg("--config").arg(config);
        }
        output(command.args([from, to])).map(drop).map_err(|error| error.to_string())
    }
}

fn write(path: &Path, len: u64) -> io::Result<()> {
    let (mut file, block) = (File::create(path)?, vec![7; BLOCK]);
    let mut left = len;
    while left > 0 {
        let now = left.min(BLOCK as u64);
        file.write_all(&block[..now as usize])?;
        left -= now;
    }
    file.sync_all()
}

fn read(path: &Path) -> io::Result<u64> {
    let (mut file, mut block, mut sum) = (File::open(path)?, vec![0; BLOCK], 0);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(sum),
            len => sum += len as u64,
        }
    }
}
