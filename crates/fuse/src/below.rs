//! What is mounted below a mount, as `/proc/self/mountinfo` shows it: what another mount namespace has mounted there is
//! not seen.
//!
//! It is looked at before each `INC_EPOCH`, and a thread waits for changes of it. While something is mounted below, no
//! name is kept, as with `lookupcache=none`, and `INC_EPOCH` is not sent. Each name that the kernel keeps from before
//! is expired by `INVAL_ENTRY` with `EXPIRE_ONLY`: it is looked up again, and found to be the same. That happens at
//! once, while no server waits for it. If a lock is called back just then, the wait for the kernel's locks of
//! directories ends after a second; the name expires when the operation in its directory has ended.
//!
//! A name that `INC_EPOCH` has dropped before is found to be dropped when the kernel looks it up next. A program that
//! works in its directory, and mounts there by a relative path, does not look it up: what it mounts is lost then.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Weak;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::notices::Notices;

const MOUNTS: &str = "/proc/self/mountinfo";

/// Looks at what is mounted below a mount.
#[derive(Debug)]
pub(crate) struct Below {
    /// The device of the mount, as the kernel writes it.
    device: String,
    mounts: File,
}

impl Below {
    /// `mountpoint`: where the mount is already.
    pub(crate) fn new(mountpoint: &Path) -> io::Result<Self> {
        // The process that answers what the kernel asks is this one, so nothing is asked.
        let flags = AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(CWD, mountpoint, flags, StatxFlags::empty())?;
        let device = format!("{}:{}", found.stx_dev_major, found.stx_dev_minor);
        Ok(Self { device, mounts: File::open(MOUNTS)? })
    }

    /// Returns whether something is mounted below; `None` if nothing was mounted or unmounted anywhere since the
    /// last time.
    pub(crate) fn look(&mut self) -> Option<bool> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.mounts, PollFlags::PRI)];
        let is_new = rustix::event::poll(&mut fds, Some(&NOW)).is_ok_and(|ready| ready > 0);
        is_new.then(|| {
            let mut text = String::new();
            let read = self.mounts.rewind().and_then(|()| self.mounts.read_to_string(&mut text));
            // What is not known may be there.
            read.is_err() || is_below(&text, &self.device)
        })
    }
}

/// Returns whether something is mounted on a mount of a device.
fn is_below(mounts: &str, device: &str) -> bool {
    let fields = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let own: Vec<&str> =
        fields.clone().filter(|(.., of)| *of == device).map(|(mount, ..)| mount).collect();
    fields.into_iter().any(|(_, on, _)| own.contains(&on))
}

/// Tells when something is mounted or unmounted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The thread waits for its end.
    _end: PipeWriter,
}

impl Watch {
    /// Starts the thread.
    pub(crate) fn start(notices: Weak<Notices>) -> io::Result<Self> {
        let (end, _end) = io::pipe()?;
        let mounts = File::open(MOUNTS)?;
        let name = "fulmar-below".to_owned();
        std::thread::Builder::new().name(name).spawn(move || watch(&notices, &mounts, &end))?;
        Ok(Self { _end })
    }
}

fn watch(notices: &Weak<Notices>, mounts: &File, end: &PipeReader) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(mounts.as_fd(), PollFlags::PRI),
            PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN),
        ];
        // A signal ends it too.
        let _ = rustix::event::poll(&mut fds, None);
        let is_over = !fds[1].revents().is_empty();
        let Some(notices) = notices.upgrade().filter(|_| !is_over) else { return };
        notices.look_below();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_on_a_mount_or_on_a_bind_of_it_is_below() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/root rw\n\
                      40 22 0:44 / /mnt/a rw - fuse.fulmar 10.0.0.1@tcp:/lv rw\n\
                      41 22 0:45 / /mnt/b rw - fuse.fulmar 10.0.0.1@tcp:/lv rw\n\
                      42 22 0:45 /dir /srv rw - fuse.fulmar 10.0.0.1@tcp:/lv rw\n\
                      43 42 0:46 / /srv/one rw - tmpfs none rw\n";
        assert!(is_below(mounts, "254:0") && is_below(mounts, "0:45"));
        assert!(!is_below(mounts, "0:44") && !is_below(mounts, "0:4") && !is_below("", "0:44"));
    }
}
