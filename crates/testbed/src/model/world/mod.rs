//! The model: what files, names, attributes and locks are after each operation of any client. It is pure.
//!
//! ```text
//!  mod         inodes and paths
//!  names       operations on names
//!  files       open files: data, locks
//!  kills       what a client had that was killed
//!  full        servers without room
//!  attributes  permissions, owners, times, attributes, access control lists
//!  data, unsaved, acl, locks   parts of an inode
//! ```

pub(crate) mod acl;
mod attributes;
pub(crate) mod data;
mod files;
mod full;
pub(crate) mod kills;
pub(crate) mod locks;
mod names;
mod unsaved;

use std::collections::BTreeMap;

use fulmar_base::Errno;

use self::data::Data;
use self::full::Room;
use self::locks::Locks;
use super::operation::{Operation, Step};
use super::outcome::{Expectation, Kind, Outcome, Time};
use super::words::{Access, Acl, Slot};

/// The most symbolic links in a path.
const LINKS_MAX: usize = 40;
/// The permissions that new files do not get.
const UMASK: u32 = 0o022;
/// The bit by which what is made in a directory gets its group.
const SETGID: u32 = 0o2000;
const SETUID: u32 = 0o4000;
/// Seconds since 1970 after any run.
const FUTURE: i64 = 3_000_000_000;
pub(crate) const ROOT: u64 = 0;

/// What an inode is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    File(Data),
    /// With the directory in which it is.
    Directory(BTreeMap<String, u64>, u64),
    Symlink(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inode {
    pub(crate) node: Node,
    pub(crate) mode: u32,
    uid: u32,
    gid: u32,
    /// How many names it has; for directories without those of directories in it.
    pub(crate) links: u32,
    atime: Option<Time>,
    pub(crate) mtime: Option<Time>,
    /// Whether that was set to a time after the run.
    is_future: bool,
    pub(crate) xattrs: BTreeMap<String, String>,
    pub(crate) acl: Option<Acl>,
    pub(crate) default: Option<Acl>,
    pub(crate) locks: Locks,
    /// Whether all data of the file are in one object.
    has_one_object: bool,
}

/// An open file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Open {
    pub(crate) inode: u64,
    pub(crate) access: Access,
    /// Of all opens of the run.
    pub(crate) number: u64,
    /// Whether its client was evicted since: the servers do not know of it.
    pub(crate) is_lost: bool,
    /// Whether its client was refused room for the file through another open file, of which this one may be told too.
    pub(crate) is_unreported: bool,
}

impl Open {
    /// Returns by which offset the pattern of a write begins, and where the write is. That of an append does not depend on
    /// where it is: who appends does not know.
    pub(crate) fn place(&self, at: u64, size: u64) -> (u64, u64) {
        if self.access.append { (0, size) } else { (at, at) }
    }
}

/// A file system, and what its clients have open.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) opens: BTreeMap<(u8, Slot), Open>,
    room: Room,
    /// How many operations each client has executed.
    executed: BTreeMap<u8, u64>,
    /// The number of what the operation that is applied makes next: that of its client and of its place among those of it,
    /// so that it does not depend on the order in which clients worked.
    next: u64,
}

impl Default for World {
    fn default() -> Self {
        let root = Inode::new(Node::Directory(BTreeMap::new(), ROOT), 0o755);
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            opens: BTreeMap::new(),
            room: Room::default(),
            executed: BTreeMap::new(),
            next: ROOT,
        }
    }
}

impl Inode {
    fn new(node: Node, mode: u32) -> Self {
        Self {
            node,
            mode,
            uid: 0,
            gid: 0,
            links: 1,
            atime: None,
            mtime: Some(Time::Now),
            is_future: false,
            xattrs: BTreeMap::new(),
            acl: None,
            default: None,
            locks: Locks::default(),
            has_one_object: false,
        }
    }

    /// Notes a change of its data or its names. A time in the future stays as long as it is newer, as with other clients.
    pub(super) fn touch(&mut self) {
        self.mtime = if self.is_future { None } else { Some(Time::Now) };
    }

    /// Drops what a file loses with its owner, whoever changes that: set-user-ID, and set-group-ID if the group may execute it.
    pub(super) fn drop_privileges(&mut self) {
        if self.kind() == Kind::Directory {
            return;
        }
        let is_of_group = self.mode & 0o010 != 0;
        self.mode &= !(SETUID | if is_of_group { SETGID } else { 0 });
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.node {
            Node::File(_) => Kind::File,
            Node::Directory(..) => Kind::Directory,
            Node::Symlink(_) => Kind::Symlink,
        }
    }

    pub(crate) fn data(&mut self) -> Option<&mut Data> {
        match &mut self.node {
            Node::File(data) => Some(data),
            _ => None,
        }
    }
}

/// The parts of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

impl World {
    /// Applies an operation, and returns what it may return.
    pub fn apply(&mut self, step: &Step) -> Expectation {
        let executed = self.executed.entry(step.client).or_default();
        *executed += 1;
        self.next = *executed << 16 | u64::from(step.client) << 8;
        let expected = self.apply_numbered(step);
        self.next = ROOT;
        expected
    }

    fn apply_numbered(&mut self, step: &Step) -> Expectation {
        let refusal = self.room.refusal.take();
        if self.is_of_gone(step) {
            return Expectation::Any;
        }
        if let Some(refusal) = refusal {
            let refused = self.refuse(step, refusal);
            return Expectation::Outcome(refused.unwrap_or_else(Outcome::Failed));
        }
        let applied = match &step.operation {
            Operation::Evict {} => {
                let inodes = self.inodes.values_mut();
                inodes.for_each(|inode| inode.locks.remove_client(step.client));
                let opens = self.opens.iter_mut().filter(|((client, _), _)| *client == step.client);
                opens.for_each(|(_, open)| open.is_lost = true);
                Ok(Outcome::Done)
            }
            Operation::Kill {} => {
                self.kill(step.client);
                Ok(Outcome::Done)
            }
            operation if operation.is_fault() => {
                self.room.change(operation);
                Ok(Outcome::Done)
            }
            Operation::Seek { slot, at, what } => {
                return self.seek((step.client, *slot), *at, *what);
            }
            operation if operation.slot().is_some() => self.apply_to_open(step),
            Operation::Chmod { .. }
            | Operation::Chown { .. }
            | Operation::Utimes { .. }
            | Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattrs { .. }
            | Operation::RemoveXattr { .. }
            | Operation::SetAcl { .. }
            | Operation::SetDefault { .. }
            | Operation::GetAcl { .. }
            | Operation::GetDefault { .. }
            | Operation::RemoveDefault { .. } => self.apply_to_attributes(&step.operation),
            operation => self.apply_to_names(operation),
        };
        match applied {
            Err(Errno::EEXIST) if matches!(step.operation, Operation::Rename { .. }) => {
                // A kernel refuses to replace a directory by what is in it before a server can, and they differ for files.
                let any = [Errno::ENOTEMPTY, Errno::EEXIST, Errno::EINVAL, Errno::EISDIR];
                Expectation::Refusal(any.to_vec())
            }
            applied => Expectation::Outcome(applied.unwrap_or_else(Outcome::Failed)),
        }
    }

    /// Returns whether an operation is on an open file that may be gone: it has no name, and servers do not know that it is open.
    fn is_of_gone(&self, step: &Step) -> bool {
        let is_gone = |slot: Slot| {
            let open = self.opens.get(&(step.client, slot));
            open.is_some_and(|open| {
                let mut others = self.opens.values().filter(|other| other.inode == open.inode);
                self.inodes[&open.inode].links == 0 && others.all(|other| other.is_lost)
            })
        };
        match &step.operation {
            Operation::Open { .. } | Operation::Close { .. } => false,
            Operation::Copy { slot, to, .. } => is_gone(*slot) || is_gone(*to),
            operation => operation.slot().is_some_and(is_gone),
        }
    }

    /// Returns an inode that must be there.
    pub(crate) fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).unwrap_or_else(|| panic!("the model has lost inode {number}"))
    }

    fn names(&self, directory: u64) -> Result<&BTreeMap<String, u64>, Errno> {
        match &self.inodes[&directory].node {
            Node::Directory(names, _) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn names_mut(&mut self, directory: u64) -> &mut BTreeMap<String, u64> {
        match &mut self.inode(directory).node {
            Node::Directory(names, _) => names,
            other => panic!("the model takes {other:?} for a directory"),
        }
    }

    /// Returns the inode of a path; of a symbolic link what it points to, if `follows`.
    pub(crate) fn resolve(&self, path: &str, follows: bool) -> Result<u64, Errno> {
        self.walk(ROOT, path, follows, &mut 0)
    }

    fn walk(&self, from: u64, path: &str, follows: bool, links: &mut usize) -> Result<u64, Errno> {
        let mut at = from;
        let mut parts = parts(path).peekable();
        while let Some(part) = parts.next() {
            let next = *self.names(at)?.get(part).ok_or(Errno::ENOENT)?;
            at = match &self.inodes[&next].node {
                Node::Symlink(target) if follows || parts.peek().is_some() => {
                    *links += 1;
                    if *links > LINKS_MAX {
                        return Err(Errno::ELOOP);
                    }
                    self.walk(at, target, true, links)?
                }
                _ => next,
            };
        }
        Ok(at)
    }

    /// Returns the directory of a path, and the name in it.
    pub(crate) fn parent<'a>(&self, path: &'a str) -> Result<(u64, &'a str), Errno> {
        let path = path.trim_end_matches('/');
        let (above, name) = path.rsplit_once('/').ok_or(Errno::EBUSY)?;
        let above = self.resolve(above, true)?;
        self.names(above)?;
        Ok((above, name))
    }

    /// Makes an inode with a name.
    fn add(&mut self, directory: u64, name: &str, node: Node, mode: u32) -> u64 {
        let number = self.next;
        self.next += 1;
        let above = &self.inodes[&directory];
        let mut new = Inode::new(node, mode);
        if above.mode & SETGID != 0 {
            new.gid = above.gid;
            if new.kind() == Kind::Directory {
                new.mode |= SETGID;
            }
        }
        match (&above.default, new.kind()) {
            (_, Kind::Symlink) => {}
            (None, _) => new.mode &= !UMASK,
            (Some(default), kind) => {
                let acl = default.inherited(new.mode);
                new.mode = new.mode & !0o777 | acl.mode();
                new.acl = acl.is_more_than_a_mode().then_some(acl);
                new.default = (kind == Kind::Directory).then(|| default.clone());
            }
        }
        self.inodes.insert(number, new);
        self.names_mut(directory).insert(name.to_owned(), number);
        self.inode(directory).touch();
        number
    }

    /// Removes a name of an inode, which goes with the last one unless it is open.
    fn remove(&mut self, directory: u64, name: &str) {
        let removed = self.names_mut(directory).remove(name);
        self.inode(directory).touch();
        if let Some(number) = removed {
            self.inode(number).links -= 1;
            self.forget(number);
        }
    }

    /// Forgets an inode that has no name and is not open.
    fn forget(&mut self, number: u64) {
        let is_open = self.opens.values().any(|open| open.inode == number);
        if self.inodes[&number].links == 0 && !is_open {
            self.inodes.remove(&number);
        }
    }

    /// Returns the paths of all inodes, the root first: one for each name.
    pub fn paths(&self) -> Vec<(String, Kind)> {
        let mut paths = vec![("/".to_owned(), Kind::Directory)];
        let mut waiting = vec![(String::new(), ROOT)];
        while let Some((above, directory)) = waiting.pop() {
            let Node::Directory(names, _) = &self.inodes[&directory].node else { continue };
            for (name, number) in names {
                let path = format!("{above}/{name}");
                paths.push((path.clone(), self.inodes[number].kind()));
                waiting.push((path, *number));
            }
        }
        paths
    }
}
