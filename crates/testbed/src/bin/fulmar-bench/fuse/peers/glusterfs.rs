//! GlusterFS, in namespaces of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::fuse::file_system::System;
use crate::others::{ADDRESS, Daemons, Host, glusterfs};

struct GlusterFs {
    /// Dropped before their host.
    daemons: Daemons,
    host: Host,
    log: PathBuf,
}

pub(super) fn start(directory: &Path) -> Result<Box<dyn System>, Failure> {
    let host = Host::new("glusterfs").map_err(Failure)?;
    let daemons = glusterfs::serve(host.namespace(), ADDRESS, directory).map_err(Failure)?;
    Ok(Box::new(GlusterFs { daemons, host, log: directory.join("client.log") }))
}

impl System for GlusterFs {
    fn name(&self) -> &'static str {
        "glusterfs"
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.daemons.id()]
    }

    fn mount(&self, at: &Path) -> Command {
        glusterfs::mount(self.host.namespace(), ADDRESS, &self.log, at)
    }
}
