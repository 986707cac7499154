//! The tree of a file system as POSIX has it, and what clients do with it: what an MDT must equal.

use std::collections::BTreeMap;

use fulmar_base::{Errno, Rng};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::OpenFlags;
use fulmar_mdt::mode;

/// What clients do, always as root.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Make(Place, Fid, u32),
    Link(Fid, Place),
    Unlink(Place),
    Rmdir(Place),
    Rename(Place, Place),
    Chmod(Fid, u32),
    Chown(Fid, u32),
    Xattr(Fid, Option<u8>),
    /// Opens a file, and gives the open file a number of the client.
    Open(Place, Fid, OpenFlags, u64),
    Close(u64),
    /// Writes so many bytes of this value to a file with data.
    Write(Fid, u64, u32, u8),
    /// Cuts such a file.
    Cut(Fid, u64),
}

/// A directory and a name in it.
pub(crate) type Place = (Fid, &'static str);

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A file as it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) nlink: u32,
    pub(crate) xattr: Option<u8>,
    /// The object of its layout.
    pub(crate) object: Option<u32>,
    /// What it has on the MDT, if its layout says that it may.
    pub(crate) data: Option<Vec<u8>>,
    /// How often it is open.
    pub(crate) opens: u32,
    /// Of a directory, its names and the directory above.
    pub(crate) entries: BTreeMap<&'static str, Fid>,
    pub(crate) parent: Fid,
}

impl Node {
    fn is_directory(&self) -> bool {
        self.mode & mode::FORMAT == mode::DIRECTORY
    }
}

/// All files, also those that are open without a name.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<Fid, Node>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let (mode, parent) = (mode::DIRECTORY | 0o755, Fid::ROOT);
        // With its hidden directory.
        let root = Node { mode, nlink: 3, parent, ..Node::default() };
        Self { nodes: BTreeMap::from([(Fid::ROOT, root)]) }
    }

    fn directory(&mut self, fid: Fid) -> Result<&mut Node, Errno> {
        let node = self.nodes.get_mut(&fid).ok_or(Errno::ENOENT)?;
        match node.nlink {
            0 => Err(Errno::ENOENT),
            _ => Ok(node),
        }
    }

    fn entry(&self, (parent, name): Place) -> Result<Option<Fid>, Errno> {
        let node = self.nodes.get(&parent).ok_or(Errno::ENOENT)?;
        Ok(node.entries.get(name).copied())
    }

    /// Does what is neither an open nor a close.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), Errno> {
        let exists = |tree: &Self, fid| tree.nodes.contains_key(fid).then_some(());
        match *op {
            Op::Make(place, fid, mode) => self.make(place, fid, mode),
            Op::Link(fid, place) => self.link(fid, place),
            Op::Unlink(place) => self.remove(place, false),
            Op::Rmdir(place) => self.remove(place, true),
            Op::Rename(from, to) => self.rename(from, to),
            Op::Chmod(fid, bits) => {
                exists(self, &fid).ok_or(Errno::ENOENT)?;
                let set = |node: &mut Node| node.mode = node.mode & mode::FORMAT | bits;
                self.nodes.entry(fid).and_modify(set);
                Ok(())
            }
            Op::Chown(fid, uid) => {
                exists(self, &fid).ok_or(Errno::ENOENT)?;
                self.nodes.entry(fid).and_modify(|node| node.uid = uid);
                Ok(())
            }
            Op::Xattr(fid, value) => {
                let node = self.nodes.get_mut(&fid).ok_or(Errno::ENOENT)?;
                if node.xattr.is_none() && value.is_none() {
                    return Err(Errno::ENODATA);
                }
                node.xattr = value;
                Ok(())
            }
            Op::Write(fid, offset, len, value) => {
                let data = self.data(fid)?;
                let (start, end) = (offset as usize, offset as usize + len as usize);
                data.resize(data.len().max(end), 0);
                data[start..end].fill(value);
                Ok(())
            }
            Op::Cut(fid, size) => {
                self.data(fid)?.resize(size as usize, 0);
                Ok(())
            }
            Op::Open(..) | Op::Close(_) => unreachable!("clients do that by their handles"),
        }
    }

    fn data(&mut self, fid: Fid) -> Result<&mut Vec<u8>, Errno> {
        let node = self.nodes.get_mut(&fid).ok_or(Errno::ENOENT)?;
        node.data.as_mut().ok_or(Errno::ENOENT)
    }

    fn make(&mut self, (parent, name): Place, fid: Fid, mode: u32) -> Result<(), Errno> {
        let directory = self.directory(parent)?;
        if directory.entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        directory.entries.insert(name, fid);
        let mut node = Node { mode, nlink: 1, parent, ..Node::default() };
        if node.is_directory() {
            directory.nlink += 1;
            node.nlink = 2;
        }
        self.nodes.insert(fid, node);
        Ok(())
    }

    fn link(&mut self, fid: Fid, (parent, name): Place) -> Result<(), Errno> {
        if fid == parent {
            return Err(Errno::EPERM);
        }
        let node = self.nodes.get(&fid).ok_or(Errno::ENOENT)?.clone();
        let directory = self.directory(parent)?;
        match () {
            () if directory.entries.contains_key(name) => return Err(Errno::EEXIST),
            () if node.is_directory() => return Err(Errno::EPERM),
            () if node.nlink == 0 => return Err(Errno::ENOENT),
            () => directory.entries.insert(name, fid),
        };
        self.nodes.entry(fid).and_modify(|node| node.nlink += 1);
        Ok(())
    }

    fn remove(&mut self, place: Place, is_directory: bool) -> Result<(), Errno> {
        let fid = self.entry(place)?.ok_or(Errno::ENOENT)?;
        let node = &self.nodes[&fid];
        match (is_directory, node.is_directory()) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ if !node.entries.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.drop_name(place, fid);
        Ok(())
    }

    /// Removes a name of a file, and the file with its last name unless it is open.
    fn drop_name(&mut self, (parent, name): Place, fid: Fid) {
        let is_directory = self.nodes[&fid].is_directory();
        let above = self.nodes.get_mut(&parent).unwrap();
        above.entries.remove(name);
        above.nlink -= u32::from(is_directory);
        let node = self.nodes.get_mut(&fid).unwrap();
        node.nlink = if is_directory { 0 } else { node.nlink - 1 };
        self.settle(fid);
    }

    fn rename(&mut self, from: Place, to: Place) -> Result<(), Errno> {
        let fid = self.entry(from)?.ok_or(Errno::ENOENT)?;
        self.directory(to.0)?;
        let replaced = self.entry(to)?;
        if replaced == Some(fid) {
            return Ok(());
        }
        let is_directory = self.nodes[&fid].is_directory();
        if is_directory && self.is_below(to.0, fid) {
            return Err(Errno::EINVAL);
        }
        if let Some(replaced) = replaced {
            let node = &self.nodes[&replaced];
            match (is_directory, node.is_directory()) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ if !node.entries.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => self.drop_name(to, replaced),
            }
        }
        let source = self.nodes.get_mut(&from.0).unwrap();
        source.entries.remove(from.1);
        source.nlink -= u32::from(is_directory);
        let target = self.nodes.get_mut(&to.0).unwrap();
        target.entries.insert(to.1, fid);
        target.nlink += u32::from(is_directory);
        self.nodes.get_mut(&fid).unwrap().parent = to.0;
        Ok(())
    }

    fn is_below(&self, mut below: Fid, above: Fid) -> bool {
        while below != above && below != Fid::ROOT {
            below = self.nodes[&below].parent;
        }
        below == above
    }

    /// Opens a file, and creates it if that is wanted. Returns it; `None` if there is none.
    pub(crate) fn open(
        &mut self,
        place: Place,
        child: Fid,
        flags: OpenFlags,
    ) -> Result<Option<Fid>, Errno> {
        let creates = flags.has(OpenFlags::CREAT);
        if flags.has(OpenFlags::VOLATILE) {
            self.directory(place.0)?;
            let mode = mode::REGULAR | 0o644;
            self.nodes.insert(child, Node { mode, opens: 1, ..Node::default() });
            return Ok(Some(child));
        }
        let fid = match self.entry(place)? {
            None if !creates => return Ok(None),
            None => {
                self.make(place, child, mode::REGULAR | 0o644)?;
                child
            }
            Some(_) if creates && flags.has(OpenFlags::EXCL) => return Err(Errno::EEXIST),
            Some(fid) => fid,
        };
        let node = self.nodes.get_mut(&fid).unwrap();
        if node.is_directory() && (creates || flags.has(OpenFlags::WRITE)) {
            return Err(Errno::EISDIR);
        }
        node.opens += 1;
        Ok(Some(fid))
    }

    pub(crate) fn close(&mut self, fid: Fid) {
        self.nodes.get_mut(&fid).unwrap().opens -= 1;
        self.settle(fid);
    }

    fn settle(&mut self, fid: Fid) {
        let node = &self.nodes[&fid];
        if node.nlink == 0 && node.opens == 0 {
            self.nodes.remove(&fid);
        }
    }

    /// Returns something that a client may do. `new` and `number` are used for what is new.
    pub(crate) fn random(&self, rng: &mut Rng, (new, number): (Fid, u64), open: &[u64]) -> Op {
        let one = |rng: &mut Rng, fids: &[Fid]| fids[rng.below(fids.len() as u64) as usize];
        let (mut directories, mut all) = (vec![], vec![]);
        for (fid, node) in &self.nodes {
            all.push(*fid);
            if node.is_directory() {
                directories.push(*fid);
            }
        }
        let file = one(rng, &all);
        let place = |rng: &mut Rng| (one(rng, &directories), NAMES[rng.below(4) as usize]);
        let (a, b) = (place(rng), place(rng));
        let with_data = self.nodes.iter().filter(|(_, node)| node.data.is_some());
        let with_data: Vec<Fid> = with_data.map(|(fid, _)| *fid).collect();
        match rng.below(26) {
            0..4 => Op::Make(a, new, mode::DIRECTORY | 0o755),
            4..6 => Op::Make(a, new, mode::REGULAR | 0o600),
            6 => Op::Link(file, a),
            7..9 => Op::Unlink(a),
            9 => Op::Rmdir(a),
            10..13 => Op::Rename(a, b),
            13 => Op::Chmod(file, 0o700 + rng.below(64) as u32),
            14 => Op::Chown(file, rng.below(5) as u32),
            15 => Op::Xattr(file, rng.one_in(2).then(|| rng.below(256) as u8)),
            20..25 if !with_data.is_empty() => {
                let (offset, len) = (rng.below(20_000), rng.between(1, 9000) as u32);
                Op::Write(one(rng, &with_data), offset, len, rng.below(256) as u8)
            }
            25 if !with_data.is_empty() => Op::Cut(one(rng, &with_data), rng.below(30_000)),
            16 if !open.is_empty() => Op::Close(open[rng.below(open.len() as u64) as usize]),
            _ => {
                let read = OpenFlags::READ;
                let flags = match rng.below(6) {
                    0 => read,
                    1 => read | OpenFlags::WRITE,
                    2 => read | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL,
                    3 => read | OpenFlags::CREAT,
                    4 => read | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::VOLATILE,
                    _ => read | OpenFlags::WRITE | OpenFlags::CREAT,
                };
                Op::Open(a, new, flags, number)
            }
        }
    }
}
