//! What the program does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{OpenOptions, SessionOptions, blocking};
use fulmar_net::NiAddress;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::ost::FILE_SYSTEM;
use crate::rpc::client::OURS;
use crate::rpc::server::ADDRESS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// The file that is read is written.
    Fill,
    /// It is read.
    Read,
    /// Another file is written and synced, and then removed.
    Write,
}

/// The length of the file, and of a block.
pub(super) const FILE: u64 = 2 << 30;
const BLOCK: u64 = 1 << 20;
/// How long the servers are waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Mounts, does it, and prints how many seconds it took without mounting and removing.
pub(crate) fn run(port: u16, load: Load) -> Result<(), Failure> {
    let address = format!("{ADDRESS}@tcp:/{FILE_SYSTEM}").parse().expect("it is an address");
    let interface = Some(NiAddress::Ip(OURS.into()));
    let options = SessionOptions { interface, port, timeout: TIMEOUT };
    let mounted = blocking::FileSystem::mount(&address, options);
    let mounted = mounted.map_err(|error| Failure(format!("cannot mount: {error}")))?;
    let seconds = match load {
        Load::Fill => write(&mounted, "read"),
        Load::Read => read(&mounted, "read"),
        Load::Write => write(&mounted, "written")
            .and_then(|seconds| mounted.unlink("written").map(|()| seconds)),
    };
    let seconds = seconds.map_err(|errno| Failure(format!("{load:?} fails: {errno}")))?;
    println!("{seconds}");
    mounted.unmount();
    Ok(())
}

fn write(mounted: &blocking::FileSystem, path: &str) -> Result<f64, Errno> {
    let block: Arc<[u8]> = vec![7; BLOCK as usize].into();
    let begun = Instant::now();
    let file = mounted.open(path, OpenOptions::create(0o644))?;
    for offset in (0..FILE).step_by(BLOCK as usize) {
        file.write(offset, block.clone())?;
    }
    file.sync()?;
    let seconds = begun.elapsed().as_secs_f64();
    file.close()?;
    Ok(seconds)
}

fn read(mounted: &blocking::FileSystem, path: &str) -> Result<f64, Errno> {
    let begun = Instant::now();
    let file = mounted.open(path, OpenOptions::read())?;
    for offset in (0..FILE).step_by(BLOCK as usize) {
        if file.read(offset, BLOCK)?.len() as u64 != BLOCK {
            return Err(Errno::EIO);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    file.close()?;
    Ok(seconds)
}
