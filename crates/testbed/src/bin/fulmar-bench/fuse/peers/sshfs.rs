//! sshfs, without the encryption that would be most of its work: the server of SFTP has the connection itself.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Failure;
use crate::fuse::file_system::System;

const SERVER: &str = "/usr/lib/openssh/sftp-server";

struct Sshfs {
    directory: PathBuf,
    port: u16,
    /// The server of the connection.
    servers: Arc<Mutex<Vec<Child>>>,
}

/// Begins to accept connections.
pub(super) fn start(directory: &Path) -> Result<Box<dyn System>, Failure> {
    if !Path::new(SERVER).exists() {
        return Err(Failure(format!("there is no {SERVER}")));
    }
    let found = Command::new("sshfs").arg("--version").output();
    found.map_err(Failure::io("run sshfs"))?;
    std::fs::create_dir_all(directory).map_err(Failure::io("create its directory"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::io("listen"))?;
    let port = listener.local_addr().map_err(Failure::io("listen"))?.port();
    let servers: Arc<Mutex<Vec<Child>>> = Arc::default();
    let started = servers.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let _ = connection.set_nodelay(true);
            let Ok(output) = connection.try_clone() else { continue };
            let mut command = Command::new(SERVER);
            command.stdin(OwnedFd::from(connection)).stdout(OwnedFd::from(output));
            let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
            started.iter_mut().for_each(|old| drop(old.wait()));
            *started = command.spawn().into_iter().collect();
        }
    });
    Ok(Box::new(Sshfs { directory: directory.to_owned(), port, servers }))
}

impl System for Sshfs {
    fn name(&self) -> &'static str {
        "sshfs"
    }

    fn servers(&self) -> Vec<u32> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.iter().map(Child::id).collect()
    }

    fn mount(&self, at: &Path) -> Command {
        let mut command = Command::new("sshfs");
        command
            .args(["-f", "-o", &format!("directport={}", self.port)])
            .arg(format!("127.0.0.1:{}", self.directory.display()))
            .arg(at);
        command
    }
}
