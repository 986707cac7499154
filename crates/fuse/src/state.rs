//! What all operations use.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_client::{Attributes, Caller, FileSystem, inode};
use fulmar_lustre_wire::Fid;
use fuser::{FileAttr, Generation};

use crate::attributes::file_attr;
use crate::handles::Handles;
use crate::interrupts::Interrupts;
use crate::locks::Owners;
use crate::nodes::Nodes;
use crate::options::Options;

/// The longest name.
const NAME_MAX: usize = 255;

/// A mount, and what the kernel knows of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) file_system: FileSystem,
    pub(crate) options: Options,
    pub(crate) handles: Handles,
    pub(crate) owners: Owners,
    pub(crate) interrupts: Arc<Interrupts>,
    nodes: Mutex<Nodes>,
    /// Whether the kernel of this machine uses labels of SELinux.
    has_selinux: bool,
}

impl State {
    pub(crate) fn new(file_system: FileSystem, options: Options) -> Self {
        let nodes = Mutex::new(Nodes::new(file_system.root()));
        let (handles, owners) = (Handles::default(), Owners::default());
        let interrupts = Arc::default();
        let has_selinux = Path::new("/sys/fs/selinux/enforce").exists();
        Self { file_system, options, handles, owners, interrupts, nodes, has_selinux }
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file with a number.
    pub(crate) fn fid(&self, number: fuser::INodeNo) -> Result<Fid, Errno> {
        self.nodes().fid(number.0).ok_or(Errno::ESTALE)
    }

    /// Returns what the kernel is told of a file that it gets to know.
    pub(crate) fn entry(&self, found: &Attributes) -> (FileAttr, Generation) {
        let number = self.nodes().tell(found.fid);
        (file_attr(found, number), Generation(inode(found.fid) >> 32))
    }

    /// Returns the same for a file whose attributes are not known yet.
    pub(crate) async fn entry_of(
        &self,
        caller: &Caller,
        file: Fid,
    ) -> Result<(FileAttr, Generation), Errno> {
        self.file_system.getattr(caller, file).await.map(|found| self.entry(&found))
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

/// Takes the result of an operation on a file that the kernel has found before. That it does not exist makes the
/// kernel look its name up again: another file may have taken its place.
pub(crate) fn found<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    result.map_err(|errno| if errno == Errno::ENOENT { Errno::ESTALE } else { errno })
}

/// Returns a name that is not too long.
pub(crate) fn name(text: &OsStr) -> Result<Vec<u8>, Errno> {
    let text = text.as_bytes();
    if text.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(text.to_vec()) }
}
