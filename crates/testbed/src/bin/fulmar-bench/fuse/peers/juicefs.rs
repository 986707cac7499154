//! JuiceFS, without a server: the process of the mount has its objects in a directory, and no network.

use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::fuse::file_system::System;
use crate::others::Host;
use crate::others::juicefs::JuiceFs;

struct Local {
    host: Host,
    juicefs: JuiceFs,
}

pub(super) fn start(directory: &Path) -> Result<Box<dyn System>, Failure> {
    let host = Host::new("juicefs").map_err(Failure)?;
    let juicefs = JuiceFs::local(host.namespace(), directory).map_err(Failure)?;
    Ok(Box::new(Local { host, juicefs }))
}

impl System for Local {
    fn name(&self) -> &'static str {
        "juicefs"
    }

    fn servers(&self) -> Vec<u32> {
        Vec::new()
    }

    fn mount(&self, at: &Path) -> Command {
        self.juicefs.mount(self.host.namespace(), at)
    }
}
