//! Locks of whole files between the mounts.

use std::fs::{self, File};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::check::{At, Outcome, Site, Wrong, failed, refused};

type Lock = fn(&File, FlockOperation) -> rustix::io::Result<()>;

/// How long a lock that is free may take.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn flock(site: &Site) -> Outcome {
    exclude(site, "flock", |file, how| rustix::fs::flock(file, how))
}

pub(super) fn fcntl(site: &Site) -> Outcome {
    exclude(site, "fcntl", |file, how| rustix::fs::fcntl_lock(file, how))
}

fn open(path: &Path) -> Result<File, Wrong> {
    File::options().read(true).write(true).open(path).at("opening it")
}

fn exclude(site: &Site, name: &str, lock: Lock) -> Outcome {
    let at = site.sub(name)?;
    fs::write(at.one.join("file"), "").at("making a file")?;
    let (one, two) = (open(&at.one.join("file"))?, open(&at.two.join("file"))?);
    match lock(&one, FlockOperation::LockExclusive) {
        Err(Errno::NOSYS | Errno::OPNOTSUPP) => {
            return Err(Wrong::NotRun("the mounts have no such locks".to_owned()));
        }
        done => done.at("an exclusive lock")?,
    }
    let again = Errno::AGAIN;
    refused("exclusive again", lock(&two, FlockOperation::NonBlockingLockExclusive), again)?;
    refused("shared beside it", lock(&two, FlockOperation::NonBlockingLockShared), again)?;
    lock(&one, FlockOperation::LockShared).at("to shared")?;
    lock(&two, FlockOperation::NonBlockingLockShared).at("shared by both")?;
    refused("exclusive beside it", lock(&two, FlockOperation::NonBlockingLockExclusive), again)?;
    lock(&two, FlockOperation::Unlock).at("unlocking")?;
    lock(&one, FlockOperation::NonBlockingLockExclusive).at("exclusive when it is free")?;
    // Who waits gets it when the other one closes the file.
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let done = lock(&two, FlockOperation::LockExclusive);
        let _ = sender.send(());
        done.at("waiting for it").map(|()| two)
    });
    if receiver.recv_timeout(Duration::from_millis(300)).is_ok() {
        return failed("who waits got it although another has it");
    }
    drop(one);
    if receiver.recv_timeout(TIMEOUT).is_err() {
        return failed("who waits did not get it when it was free");
    }
    let two = waiting.join().unwrap_or_else(|_| failed("it panicked"))?;
    let third = open(&at.one.join("file"))?;
    refused("it has it now", lock(&third, FlockOperation::NonBlockingLockShared), again)?;
    lock(&two, FlockOperation::Unlock).at("unlocking")?;
    lock(&third, FlockOperation::NonBlockingLockExclusive).at("exclusive at the end")?;
    Ok("shared, exclusive, and who waits gets it".to_owned())
}
