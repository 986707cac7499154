//! What all operations use.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_client::{Attributes, Caller, FileSystem};
use fulmar_lustre_wire::Fid;
use fuser::{FileAttr, Generation, Request};

use crate::attributes::file_attr;
use crate::counts::Counts;
use crate::expected::ExpectationSlot;
use crate::handles::Handles;
use crate::interrupts::Interrupts;
use crate::nodes::{KernelCache, Nodes};
use crate::notices::Notices;
use crate::options::Options;
use crate::owners::Owners;

/// How long the kernel may use what nothing protects without asking.
pub(crate) const NO_TIME: Duration = Duration::ZERO;
/// The same for what is dropped when it is not valid any more.
pub(crate) const LONG: Duration = Duration::from_secs(1 << 24);
/// The longest name.
const NAME_MAX: usize = 255;

/// A mount, and what the kernel knows of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) file_system: FileSystem,
    pub(crate) options: Options,
    pub(crate) handles: Handles,
    pub(crate) owners: Mutex<Owners>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) asked: Counts,
    pub(crate) expected: ExpectationSlot,
    /// Whether the kernel of this machine uses labels of SELinux.
    has_selinux: bool,
}

impl State {
    pub(crate) fn new(file_system: FileSystem, options: Options) -> Self {
        let notices = Arc::new(Notices::new(file_system.root()));
        file_system.watch(notices.clone());
        let (handles, owners) = (Handles::default(), Mutex::default());
        let (interrupts, asked) = (Arc::default(), Counts::default());
        let expected = ExpectationSlot::default();
        let has_selinux = Path::new("/sys/fs/selinux/enforce").exists();
        Self {
            file_system,
            options,
            handles,
            owners,
            interrupts,
            notices,
            asked,
            expected,
            has_selinux,
        }
    }

    /// Uses what the kernel knows. Not while the file system is used.
    pub(crate) fn nodes<R>(&self, call: impl FnOnce(&mut Nodes) -> R) -> R {
        self.notices.nodes(call)
    }

    /// Returns the file with a number.
    pub(crate) fn fid(&self, number: fuser::INodeNo) -> Result<Fid, Errno> {
        self.nodes(|nodes| nodes.fid(number.0)).ok_or(Errno::ESTALE)
    }

    /// The same if a request asks for a name in it or for its attributes.
    pub(crate) fn fid_asked(
        &self,
        request: &Request,
        number: fuser::INodeNo,
    ) -> Result<Fid, Errno> {
        self.notices.asked(number.0, request.pid()).ok_or(Errno::ESTALE)
    }

    /// Returns what the kernel is told of a file that it gets to know, and asks again each time.
    pub(crate) fn entry(&self, found: &Attributes) -> EntryReply {
        self.entry_kept(found, KernelCache::default())
    }

    /// The same if it may keep what locks protect. To be called while they do.
    pub(crate) fn entry_kept(&self, found: &Attributes, protected: KernelCache<'_>) -> EntryReply {
        let (number, kept) = self.nodes(|nodes| nodes.tell(found.fid, protected));
        EntryReply {
            attr: file_attr(found, number),
            // A handle has both, so it never is that of another file with the same number.
            generation: Generation(found.fid.oid.into()),
            name: lifetime(kept.name.is_some()),
            attributes: lifetime(kept.attributes),
        }
    }

    /// Returns what the kernel is told of a file that was found under a name.
    pub(crate) fn entry_of_name(
        &self,
        (parent, name): (Fid, &[u8]),
        found: &Attributes,
    ) -> EntryReply {
        let place = (parent, name);
        self.file_system.protected(found.fid, Some(place), |now| {
            let name = now.name.then_some(place);
            let protected = KernelCache { name, attributes: now.attributes.is_some() };
            self.entry_kept(&now.attributes.unwrap_or(*found), protected)
        })
    }

    /// Returns what the kernel is told of a new file whose attributes are not known yet.
    pub(crate) async fn entry_of(&self, caller: &Caller, file: Fid) -> Result<EntryReply, Errno> {
        self.file_system.getattr(caller, file).await.map(|found| self.entry(&found))
    }

    /// The kernel is not told of a file that was found for it.
    pub(crate) fn not_told(&self, found: &EntryReply) {
        self.notices.forget(found.attr.ino.0, 1);
    }

    /// Returns the attributes of a file if locks protect them, for the kernel to keep.
    pub(crate) fn kept_attributes(&self, file: Fid) -> Option<Attributes> {
        self.file_system.protected(file, None, |now| {
            now.attributes.inspect(|_| self.nodes(|nodes| nodes.tell_attributes(file)))
        })
    }

    /// Refuses attributes of users where they are switched off, and the label of SELinux where that is: a
    /// program that is told so asks for no more labels.
    pub(crate) fn check_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        let is_refused = match name {
            b"security.selinux" => !self.has_selinux,
            _ => self.options.no_user_xattr && name.starts_with(b"user."),
        };
        if is_refused { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }
}

/// What the kernel is told of a file that it gets to know, and how long it may use that without asking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryReply {
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
    pub(crate) name: Duration,
    pub(crate) attributes: Duration,
}

pub(crate) fn lifetime(is_kept: bool) -> Duration {
    if is_kept { LONG } else { NO_TIME }
}

/// Handles the result of an operation on a file that the kernel has found before. That it does not exist makes the
/// kernel look its name up again: another file may have taken its place.
pub(crate) fn found<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    result.map_err(|errno| if errno == Errno::ENOENT { Errno::ESTALE } else { errno })
}

/// Returns a name that is not too long.
pub(crate) fn name(text: &OsStr) -> Result<Vec<u8>, Errno> {
    let text = text.as_bytes();
    if text.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(text.to_vec()) }
}
