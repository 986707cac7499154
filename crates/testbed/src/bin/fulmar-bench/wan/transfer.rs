//! A file that is copied between two sites by another file system, whose servers are at site B.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fulmar::demo::ocean::LINK_IPS;
use fulmar_link::{Namespace, output};

use super::copies::Way;
use crate::fuse::Mount;
use crate::others::ganesha::Ganesha;
use crate::others::glusterfs;
use crate::others::juicefs::JuiceFs;

/// The name of the file in each file system.
const NAME: &str = "copied";

pub(super) struct Transfer<'a> {
    /// Site A and site B.
    pub(super) ends: [&'a Namespace; 2],
    pub(super) directory: PathBuf,
    /// The file at either site; one of them is there, the other one is made.
    pub(super) paths: [PathBuf; 2],
    pub(super) direction: Way,
}

impl Transfer<'_> {
    pub(super) fn by_glusterfs(&self) -> Result<Duration, String> {
        let directory = self.directory.join("glusterfs");
        let [a, b] = self.ends;
        let (address, log) = (LINK_IPS[1], directory.join("client.log"));
        let _daemons = glusterfs::serve(b, address, &directory)?;
        let mount = |at: &Namespace, to: &Path| glusterfs::mount(at, address, &log, to);
        self.in_mount(&directory.join("mount"), |to| mount(b, to), |to| mount(a, to))
    }

    pub(super) fn by_juicefs(&self, bucket: &str, key: &Path) -> Result<Duration, String> {
        let directory = self.directory.join("juicefs");
        let [a, _] = self.ends;
        let juicefs = JuiceFs::by_sftp(a, &directory, bucket, key)?;
        let mount = |to: &Path| juicefs.mount(a, to);
        self.in_mount(&directory.join("mount"), mount, mount)
    }

    pub(super) fn by_ganesha(&self) -> Result<Duration, String> {
        let [a, b] = self.ends;
        let directory = self.directory.join("ganesha");
        let server = Ganesha::serve(b, LINK_IPS[1], &directory)?;
        match self.direction {
            Way::FromServer => {
                let copied = fs::copy(&self.paths[1], server.path(NAME));
                copied.map_err(|error| error.to_string())?;
                timed(&mut server.read(a, NAME))
            }
            Way::ToServer => timed(&mut server.write(a, &self.paths[0], NAME)),
        }
    }

    /// Copies the file from or into a mount at site A. `fill` mounts it where it is filled.
    fn in_mount(
        &self,
        at: &Path,
        fill: impl Fn(&Path) -> Command,
        mount: impl Fn(&Path) -> Command,
    ) -> Result<Duration, String> {
        let inside = at.join(NAME);
        let [near, far] = &self.paths;
        let within = |mut command: Command, from: &Path, to: &Path| -> Result<Duration, String> {
            let mounted = Mount::start(&mut command, at).map_err(|why| why.to_string())?;
            let took = copy(from, to)?;
            mounted.end().map_err(|why| why.to_string())?;
            Ok(took)
        };
        if self.direction == Way::ToServer {
            return within(mount(at), near, &inside);
        }
        within(fill(at), far, &inside)?;
        within(mount(at), &inside, near)
    }
}

fn copy(from: &Path, to: &Path) -> Result<Duration, String> {
    let [from, to] =
        [("if=", from), ("of=", to)].map(|(is, path)| format!("{is}{}", path.display()));
    timed(Command::new("dd").args([&from, &to, "bs=1M", "conv=fsync"]))
}

fn timed(command: &mut Command) -> Result<Duration, String> {
    let begun = Instant::now();
    output(command).map_err(|error| error.to_string())?;
    Ok(begun.elapsed())
}
