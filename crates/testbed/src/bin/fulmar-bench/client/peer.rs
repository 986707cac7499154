//! The same by NFS without a kernel: nfs-ganesha, and the tools of libnfs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fulmar_link::output;
use fulmar_testbed::lab::tree_cpu_seconds;

use super::load::FILE;
use super::{Load, Trial};
use crate::Failure;
use crate::others::ganesha::Ganesha;
use crate::others::{ADDRESS, Host};
use crate::process::with_cpu_time;

const BLOCK: usize = 1 << 20;
const READ: &str = "read";

/// A server with a file that is read, or a local file that is copied to it.
pub(super) struct Peer {
    /// Dropped before its host.
    server: Ganesha,
    host: Host,
    source: PathBuf,
}

impl Peer {
    pub(super) fn start(directory: &Path, load: Load) -> Result<Self, Failure> {
        let host = Host::new("ganesha").map_err(Failure)?;
        fs::create_dir_all(directory).map_err(Failure::io("create its directory"))?;
        let server = Ganesha::serve(host.namespace(), ADDRESS, directory).map_err(Failure)?;
        let source = directory.join("source");
        let path = if load == Load::Read { server.path(READ) } else { source.clone() };
        make(&path).map_err(Failure::io(format!("make {}", path.display())))?;
        Ok(Self { server, host, source })
    }

    /// Measures a process that reads or writes, with its mount.
    pub(super) fn trial(&self, load: Load, number: usize) -> Result<Trial, Failure> {
        let host = self.host.namespace();
        let command = match load {
            Load::Read => self.server.read(host, READ),
            Load::Fill | Load::Write => {
                // That of the trial before, whose name the server still knows.
                let name = |number: usize| format!("written{number}");
                let _ = fs::remove_file(self.server.path(&name(number.saturating_sub(1))));
                self.server.write(host, &self.source, &name(number))
            }
        };
        let server = || tree_cpu_seconds(self.server.id()).map_err(Failure);
        let before = server()?;
        let (seconds, client_cpu) = with_cpu_time(|| timed(command))?;
        Ok(Trial::new(seconds, client_cpu, server()? - before))
    }
}

fn timed(mut command: Command) -> Result<f64, Failure> {
    let begun = Instant::now();
    output(&mut command).map_err(|error| Failure(error.to_string()))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn make(path: &Path) -> io::Result<()> {
    let (mut file, block) = (File::create(path)?, vec![7; BLOCK]);
    for _ in 0..FILE / BLOCK as u64 {
        file.write_all(&block)?;
    }
    Ok(())
}
