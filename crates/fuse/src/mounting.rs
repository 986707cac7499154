//! The mount itself: the superuser makes it directly, so that its type is `fuse.fulmar`, others by `fusermount`.
//!
//! A mount has an LNet node of its own on the networks of the servers, or with `-o config=FILE` one
//! with the networks and routes of a configuration (`daemon::ClientSide`); NIDs on networks with a
//! route are reached by it. The superuser's mount is made directly, with the type `fuse.fulmar`;
//! `fusermount` makes that of others. What waits for a mount that is ended while in use fails. One
//! that another mount namespace has too is mounted once more to end it, since only a name ends it
//! for all. A mount whose process was killed is removed by the next one on the same directory.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_client::AccessTimes;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::below::{Below, Watch};
use crate::caller::is_root;
use crate::front::Front;
use crate::notices::Notices;
use crate::options::{DataCache, Options};

const DEVICE: &str = "/dev/fuse";
const TYPE: &str = "fuse.fulmar";
/// The most threads that read requests.
const THREADS_MAX: usize = 4;

/// How long the kernel may need to write what programs have changed in memory, before the mount ends without it.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// A mount of the kernel, and the threads that read its requests.
#[derive(Debug)]
pub(crate) struct KernelMount {
    session: BackgroundSession,
    /// Until the end it is looked at what is mounted below.
    _watch: Watch,
    mountpoint: PathBuf,
    /// The kernel's end, if the mount was made directly, and how.
    direct: Option<(File, String, Options)>,
}

impl KernelMount {
    /// Mounts on a directory.
    pub(crate) fn new(
        front: Front,
        notices: &Arc<Notices>,
        (source, mountpoint): (&str, &Path),
        options: &Options,
    ) -> io::Result<Self> {
        let mountpoint = mountpoint.canonicalize()?;
        let config = config(source, options);
        let begin = |session: Session<Front>| {
            let device = session.as_fd().try_clone_to_owned()?;
            let keeps = (!options.no_lookup_cache, options.data_cache != DataCache::Off);
            notices.connect(device.into(), keeps, Below::new(&mountpoint)?);
            Ok((session.spawn()?, Watch::start(Arc::downgrade(notices))?))
        };
        if !is_root() {
            let (session, _watch) = Session::new(front, &mountpoint, &config).and_then(begin)?;
            return Ok(Self { session, _watch, mountpoint, direct: None });
        }
        let device = File::options().read(true).write(true).open(DEVICE)?;
        mount(&device, source, &mountpoint, options)?;
        let (session, _watch) =
            Session::from_fd(front, device.try_clone()?.into(), config.acl, config)
                .and_then(begin)
                .inspect_err(|_| detach(&mountpoint))?;
        let direct = Some((device, source.to_owned(), options.clone()));
        Ok(Self { session, _watch, mountpoint, direct })
    }

    /// Ends the mount. One in use loses its name, and who uses it fails, also in other mount namespaces: without
    /// its server it would be dead.
    pub(crate) fn end(self) {
        let Self { session, mountpoint, direct, .. } = self;
        let Some((device, source, options)) = direct else {
            if session.umount_and_join().is_err() {
                detach(&mountpoint);
            }
            return;
        };
        // Something else may be mounted there since it has ended.
        if is_connected(&device)
            && rustix::mount::unmount(&mountpoint, UnmountFlags::empty()).is_err()
        {
            sync(&mountpoint);
            detach(&mountpoint);
        }
        // Another mount namespace has it too. Only a name can end it for all, so it gets one again.
        if is_connected(&device) && mount(&device, &source, &mountpoint, &options).is_ok() {
            sync(&mountpoint);
            detach(&mountpoint);
        }
        // A kernel that does not mount a connection twice ends it with this process.
        if !is_connected(&device) && session.join().is_err() {
            detach(&mountpoint);
        }
    }
}

/// Has the kernel write what programs have changed in memory: it is lost if the mount is taken away from them. What
/// takes too long is not waited for.
fn sync(mountpoint: &Path) {
    let (sender, ended) = std::sync::mpsc::channel();
    let mountpoint = mountpoint.to_owned();
    let write = move || {
        let _ = File::open(mountpoint).map(rustix::fs::syncfs);
        let _ = sender.send(());
    };
    if std::thread::Builder::new().name("fulmar-sync".to_owned()).spawn(write).is_ok() {
        let _ = ended.recv_timeout(SYNC_TIMEOUT);
    }
}

/// Removes what a process that was killed has left of its mount.
///
/// # Errors
/// EPERM for others than the superuser.
pub fn remove_dead(mountpoint: &Path) -> io::Result<()> {
    let is_dead = |error: io::Error| error.raw_os_error() == Some(Errno::ENOTCONN.0);
    if mountpoint.metadata().is_err_and(is_dead) {
        Ok(rustix::mount::unmount(mountpoint, UnmountFlags::DETACH)?)
    } else {
        Ok(())
    }
}

fn mount(device: &File, source: &str, mountpoint: &Path, options: &Options) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (fd, mode) = (device.as_raw_fd(), mountpoint.metadata()?.mode());
    let data =
        format!("fd={fd},rootmode={mode:o},user_id=0,group_id=0,default_permissions,allow_other");
    let all = [
        (options.read_only, MountFlags::RDONLY),
        (options.access_times == AccessTimes::Never, MountFlags::NOATIME),
        (options.access_times == AccessTimes::Always, MountFlags::STRICTATIME),
        (options.sync, MountFlags::SYNCHRONOUS),
        (options.no_dev, MountFlags::NODEV),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_exec, MountFlags::NOEXEC),
    ];
    let set = all.into_iter().filter(|(is_set, _)| *is_set);
    let flags = set.fold(MountFlags::empty(), |flags, (_, flag)| flags | flag);
    let data = CString::new(data)?;
    Ok(rustix::mount::mount(source, mountpoint, TYPE, flags, data.as_c_str())?)
}

/// Detaches a mount that is in use; what waits for it fails.
fn detach(mountpoint: &Path) {
    // It may be gone already.
    let _ = rustix::mount::unmount(mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH);
}

/// Returns whether the kernel still has the mount.
fn is_connected(device: &File) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = rustix::event::poll(&mut fds, Some(&now));
    polled.is_ok() && !fds[0].revents().contains(PollFlags::ERR)
}

fn config(source: &str, options: &Options) -> Config {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.to_owned()),
        MountOption::Subtype("fulmar".to_owned()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    let keeps_atime = options.access_times == AccessTimes::Never;
    config.mount_options.extend(keeps_atime.then_some(MountOption::NoAtime));
    config.mount_options.extend(options.sync.then_some(MountOption::Sync));
    config.mount_options.extend(options.no_exec.then_some(MountOption::NoExec));
    config.acl = if is_root() || options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    config
}
