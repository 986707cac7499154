//! NFS version 3 by nfs-ganesha, and its client library libnfs: servers and a client in userspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fulmar_link::Namespace;

use super::{Daemons, create, installed};

const HOW: &str = "apt-get install nfs-ganesha nfs-ganesha-vfs rpcbind libnfs-utils";
/// The ports of NFS and of its mount protocol.
const PORT: u16 = 2049;
const MOUNT_PORT: u16 = 2050;

/// A server with one export.
pub(crate) struct Ganesha {
    daemons: Daemons,
    address: String,
    export: PathBuf,
}

impl Ganesha {
    /// Exports a directory below `directory`, at an address of a host.
    pub(crate) fn serve(
        namespace: &Namespace,
        address: &str,
        directory: &Path,
    ) -> Result<Self, String> {
        // The server registers with the port mapper, or ends.
        for program in ["ganesha.nfsd", "rpcbind", "nfs-cat", "nfs-cp", "nfs-ls"] {
            installed(program, HOW)?;
        }
        let export = directory.join("export");
        create(&export)?;
        let config = directory.join("ganesha.conf");
        let written = std::fs::write(&config, configuration(&export));
        written.map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        let url = url_of(address, &export);
        let script = format!(
            "for at in /run /var/lib/nfs; do mount -t tmpfs tmpfs $at; done\n\
             rpcbind -w\n\
             ganesha.nfsd -F -f {} -L {} -p /run/ganesha.pid -N CRIT &\n\
             left=100\n\
             until nfs-ls '{url}' >/dev/null 2>&1; do left=$((left - 1)); [ $left -gt 0 ]; sleep 0.2; done\n\
             echo served\n\
             wait\n",
            config.display(),
            directory.join("ganesha.log").display(),
        );
        let daemons = Daemons::start(namespace, &script)?;
        Ok(Self { daemons, address: address.to_owned(), export })
    }

    /// Returns the process from which all of the server descend.
    pub(crate) fn id(&self) -> u32 {
        self.daemons.id()
    }

    /// Returns where the server has a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }

    fn url(&self, name: &str) -> String {
        url_of(&self.address, &self.path(name))
    }

    /// Returns the command that reads a file, and does nothing with it.
    pub(crate) fn read(&self, namespace: &Namespace, name: &str) -> Command {
        let mut command = namespace.command_here("nfs-cat".as_ref());
        command.arg(self.url(name)).stdout(Stdio::null());
        command
    }

    /// Returns the command that copies a local file to a new file.
    pub(crate) fn write(&self, namespace: &Namespace, from: &Path, name: &str) -> Command {
        let mut command = namespace.command_here("nfs-cp".as_ref());
        command.arg(from).arg(self.url(name));
        command
    }
}

fn url_of(address: &str, path: &Path) -> String {
    let path = path.display();
    format!("nfs://{address}{path}?version=3&nfsport={PORT}&mountport={MOUNT_PORT}")
}

fn configuration(export: &Path) -> String {
    let export = export.display();
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {PORT}; MNT_Port = {MOUNT_PORT}; \
           Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n\
         EXPORT {{ Export_Id = 1; Path = {export}; Pseudo = /bench; Access_Type = RW; \
           Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP; \
           FSAL {{ Name = VFS; }} }}\n"
    )
}
