//! Programs that copy files by ssh, with a server of its own at site B; and other file systems with their servers there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fulmar::demo::ocean::{LINK_IPS, Sites};
use fulmar_link::{Program, output};
use rustix::mount::{UnmountFlags, unmount};

use super::transfer::Transfer;

const SERVER: &str = "/usr/sbin/sshd";
const PORT: &str = "2022";
/// What the server needs to separate privileges.
const RUNTIME: &str = "/run/sshd";

/// A direction, as seen from site A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    FromServer,
    ToServer,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Scp,
    Rsync,
    /// A mount, in which `dd` reads or writes.
    Sshfs,
    /// A mount, and servers at site B.
    Glusterfs,
    /// A mount that keeps names at site A and data at site B, by sftp.
    Juicefs,
    /// The tools of libnfs.
    Ganesha,
}

impl Way {
    /// Returns the programs, with the names of their figures.
    pub(super) fn programs(self) -> &'static [(Tool, &'static str)] {
        match self {
            Self::FromServer => &[
                (Tool::Scp, "wan.file_read.scp_vs_link"),
                (Tool::Rsync, "wan.file_read.rsync_vs_link"),
                (Tool::Sshfs, "wan.file_read.sshfs_vs_link"),
                (Tool::Glusterfs, "wan.file_read.glusterfs_vs_link"),
                (Tool::Juicefs, "wan.file_read.juicefs_vs_link"),
                (Tool::Ganesha, "wan.file_read.ganesha_vs_link"),
            ],
            Self::ToServer => &[
                (Tool::Scp, "wan.file_write.scp_vs_link"),
                (Tool::Rsync, "wan.file_write.rsync_vs_link"),
                (Tool::Sshfs, "wan.file_write.sshfs_vs_link"),
                (Tool::Glusterfs, "wan.file_write.glusterfs_vs_link"),
                (Tool::Juicefs, "wan.file_write.juicefs_vs_link"),
                (Tool::Ganesha, "wan.file_write.ganesha_vs_link"),
            ],
        }
    }
}

/// A server of ssh at site B, and what its clients at site A need.
pub(super) struct Copies<'a> {
    sites: &'a Sites,
    directory: PathBuf,
    /// Directories of site A and of site B.
    places: [PathBuf; 2],
    _server: Program,
}

impl<'a> Copies<'a> {
    /// Makes keys below `directory`, and starts the server.
    pub(super) fn start(
        sites: &'a Sites,
        directory: &Path,
        places: [PathBuf; 2],
    ) -> Result<Self, String> {
        if !Path::new(SERVER).exists() {
            return Err(format!("there is no {SERVER}"));
        }
        let failed = |error: std::io::Error| format!("cannot prepare {SERVER}: {error}");
        std::fs::create_dir_all(RUNTIME).map_err(failed)?;
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(key));
            output(&mut command).map_err(|error| error.to_string())?;
        }
        let config = directory.join("sshd_config");
        let shown = directory.display();
        let text = format!(
            "Port {PORT}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\nStrictModes no\n\
             UsePAM no\nPidFile none\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        );
        std::fs::write(&config, text).map_err(failed)?;
        let [_, b] = sites.ends();
        let mut command = b.command(SERVER.as_ref());
        let mut server = Program::start(command.args(["-D", "-e", "-f"]).arg(&config))?;
        server.wait_for("Server listening")?;
        Ok(Self { sites, directory: directory.to_owned(), places, _server: server })
    }

    /// Copies a file, and returns how long it took.
    pub(super) fn run(&self, tool: Tool, direction: Way, name: &str) -> Result<Duration, String> {
        let [near, far] = self.places.each_ref().map(|place| place.join(name));
        let target = if direction == Way::FromServer { &near } else { &far };
        // That of the program before.
        let _ = std::fs::remove_file(target);
        let remote = format!("root@{}:{}", LINK_IPS[1], far.display());
        let mut words = [remote, near.display().to_string()];
        if direction == Way::ToServer {
            words.reverse();
        }
        match tool {
            Tool::Scp => {
                let options = self.options();
                self.timed("scp", |scp| scp.arg("-q").args(["-P", PORT]).args(options).args(words))
            }
            Tool::Rsync => {
                let ssh = format!("ssh -p {PORT} {}", self.options().join(" "));
                // All of the file, and as safe as the others.
                self.timed("rsync", |rsync| rsync.args(["-W", "--inplace", "-e", &ssh]).args(words))
            }
            Tool::Sshfs => self.in_mount(direction, name),
            Tool::Glusterfs => self.transfer(direction, name).by_glusterfs(),
            Tool::Juicefs => {
                let bucket =
                    format!("{}:{PORT}:{}/objects/", LINK_IPS[1], self.places[1].display());
                self.transfer(direction, name).by_juicefs(&bucket, &self.directory.join("user"))
            }
            Tool::Ganesha => self.transfer(direction, name).by_ganesha(),
        }
    }

    fn transfer(&self, direction: Way, name: &str) -> Transfer<'_> {
        let paths = self.places.each_ref().map(|place| place.join(name));
        let directory = self.directory.clone();
        Transfer { ends: self.sites.ends().map(|end| &**end), directory, paths, direction }
    }

    /// Returns the options of ssh and of scp that both have.
    fn options(&self) -> Vec<String> {
        let identity = format!("IdentityFile={}", self.directory.join("user").display());
        let known = "UserKnownHostsFile=/dev/null".to_owned();
        let others = ["StrictHostKeyChecking=no", "BatchMode=yes", "IdentitiesOnly=yes"];
        let others = others.into_iter().chain(["LogLevel=ERROR"]).map(str::to_owned);
        let all = [identity, known].into_iter().chain(others);
        all.flat_map(|option| ["-o".to_owned(), option]).collect()
    }

    /// Runs a program at site A.
    fn timed(
        &self,
        program: &str,
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Duration, String> {
        let [a, _] = self.sites.ends();
        let mut command = a.command(program.as_ref());
        let command = with(&mut command).stdin(Stdio::null());
        let begun = Instant::now();
        output(command).map_err(|error| error.to_string())?;
        Ok(begun.elapsed())
    }

    /// Copies a file from or into a mount by sshfs.
    fn in_mount(&self, direction: Way, name: &str) -> Result<Duration, String> {
        let at = self.directory.join("sshfs");
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let [a, _] = self.sites.ends();
        let mut command = a.command_here("sshfs".as_ref());
        command.args(["-p", PORT]).args(self.options());
        command.arg(format!("root@{}:{}", LINK_IPS[1], self.places[1].display())).arg(&at);
        output(&mut command).map_err(|error| error.to_string())?;
        let mut paths = [at.join(name), self.places[0].join(name)];
        if direction == Way::ToServer {
            paths.reverse();
        }
        let [from, to] = paths.map(|path| path.display().to_string());
        let mut command = Command::new("dd");
        command.args([format!("if={from}"), format!("of={to}")]);
        let begun = Instant::now();
        let copied = output(command.args(["bs=1M", "conv=fsync"]));
        let took = begun.elapsed();
        let unmounted = unmount(&at, UnmountFlags::DETACH);
        copied.map_err(|error| error.to_string())?;
        unmounted.map_err(|errno| format!("cannot unmount {}: {errno}", at.display()))?;
        Ok(took)
    }
}
