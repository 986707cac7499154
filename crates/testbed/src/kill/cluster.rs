//! The servers of a file system, each a process of its own over a directory.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fulmar_client::Address;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, TargetLabel};

/// How long a server may need to start.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Of its store, what has no data.
const NO_DATA: [&str; 2] = ["reserve", "lock"];

/// A server: an MGS with an MDT, or an OST.
pub(super) struct Server {
    fulmar: PathBuf,
    /// Its directory, and those of its targets in it.
    pub(super) directory: PathBuf,
    address: String,
    port: u16,
    child: Option<Child>,
    /// How often it was started, which its targets count too.
    pub(super) starts: u32,
}

/// The servers: first that of the MDT.
pub(super) struct Cluster {
    pub(super) address: Address,
    pub(super) servers: Vec<Server>,
    scratch: PathBuf,
}

impl Cluster {
    /// Makes the directories of an MDT and this many OSTs in `scratch`, and starts the servers.
    pub(super) fn start(
        fulmar: &Path,
        scratch: &Path,
        osts: u16,
        net: Net,
    ) -> Result<Self, String> {
        let address: Address = format!("{}@tcp:/lv", net.host(0))
            .parse()
            .map_err(|error| format!("the address of the file system: {error}"))?;
        let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
        let mdt = scratch.join("mdt");
        fulmar_server::format_both(&mdt, &label(TargetKind::Mdt, 0)).map_err(|e| e.to_string())?;
        let mut directories = vec![mdt];
        for index in 0..osts {
            let directory = scratch.join(format!("ost{index}"));
            let label = Label::Target(label(TargetKind::Ost, index));
            fulmar_server::format(&directory, &label).map_err(|error| error.to_string())?;
            directories.push(directory);
        }
        let servers = directories.into_iter().enumerate().map(|(place, directory)| Server {
            fulmar: fulmar.to_owned(),
            directory,
            address: net.host(place),
            port: net.port,
            child: None,
            starts: 0,
        });
        let scratch = scratch.to_owned();
        let mut this = Self { address, servers: servers.collect(), scratch };
        for place in 0..this.servers.len() {
            this.restart(place)?;
        }
        Ok(this)
    }

    /// Kills a server at once.
    pub(super) fn kill(&mut self, place: usize) {
        if let Some(mut child) = self.servers[place].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Copies what a killed server has left. The copy can be opened without a change of the original.
    pub(super) fn copy(&self, place: usize, name: &str) -> Result<PathBuf, String> {
        let to = self.scratch.join(name);
        let _ = std::fs::remove_dir_all(&to);
        copy(&self.servers[place].directory, &to)
            .map_err(|error| format!("cannot copy to {}: {error}", to.display()))?;
        Ok(to)
    }

    /// Starts a server, and waits until it is ready.
    pub(super) fn restart(&mut self, place: usize) -> Result<(), String> {
        let notify = self.scratch.join(format!("{place}.notify"));
        let _ = std::fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify).map_err(|error| error.to_string())?;
        ready.set_read_timeout(Some(TIMEOUT)).map_err(|error| error.to_string())?;
        let log = self.scratch.join(format!("{place}.log"));
        let server = &mut self.servers[place];
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(&server.fulmar);
        command
            .args(["node", "--accept", "all", "--accept-port", &server.port.to_string()])
            .args(["--networks", &format!("tcp({})", server.address)])
            .args([Path::new("--target"), &server.directory])
            .env("FULMAR_CONTROL", self.scratch.join(format!("{place}.sock")))
            .env("NOTIFY_SOCKET", &notify)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let child = command.spawn().map_err(|error| format!("cannot start a server: {error}"))?;
        server.child = Some(child);
        server.starts += 1;
        let said = |log: &Path| std::fs::read_to_string(log).unwrap_or_default();
        let mut state = [0; 64];
        match ready.recv(&mut state) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("the server {place} is not ready:\n{}", said(&log))),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.servers.len()).for_each(|place| self.kill(place));
    }
}

/// Where the servers and their clients are: loopback addresses and a port.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    /// The third byte of the addresses 127.0.x.y.
    pub third: u8,
    /// The TCP port of all nodes.
    pub port: u16,
}

impl Net {
    pub(super) fn host(self, place: usize) -> String {
        format!("127.0.{}.{}", self.third, place + 1)
    }
}

/// Copies a directory without what has no data.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
        } else if NO_DATA.iter().all(|other| name != *other) {
            std::fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
