//! Other file systems for networks, each over a directory in memory.

mod glusterfs;
mod juicefs;
mod sshfs;

use std::path::Path;

use super::file_system::System;
use crate::Failure;

/// A peer, and how it starts.
type Peer = (&'static str, fn(&Path) -> Result<Box<dyn System>, Failure>);

/// The peers.
pub(super) const ALL: &[Peer] =
    &[("sshfs", sshfs::start), ("glusterfs", glusterfs::start), ("juicefs", juicefs::start)];
