//! The files that the kernel knows, and what it may use of them without asking.
//!
//! * *The root* is read before the mount is made, as by a kernel's client: its attributes are what
//!   the first user reads first.
//!
//! * *Own changes* are seen at once: the kernel drops what it changes, and the client gives up the
//!   locks on it before the change. After something was made in a directory, its name is looked up
//!   again at once, since the next operation in it needs that.

use std::collections::BTreeMap;

use fulmar_client::{Stale, inode};
use fulmar_lustre_wire::Fid;

use crate::kernel_names::{KernelNames, Name};
use crate::listings::Listings;
use crate::pages::Pages;

/// The number of the root of a mount.
pub(crate) const ROOT: u64 = 1;

/// The files that the kernel knows by numbers: those of their inodes, as long as they are unique. Bounded by the
/// kernel, which forgets what it has no memory for.
///
/// Each time the kernel is told something with a lifetime, that is noted here before it is looked whether locks
/// protect it. So when a lock is lost, one of both knows of the other: what is noted is dropped by the
/// kernel, and what is looked at later is not protected any more.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_number: BTreeMap<u64, Node>,
    by_fid: BTreeMap<Fid, u64>,
    /// Whether names can be dropped, and so may be kept: all at once.
    pub(crate) keeps_names: bool,
    /// Whether something is mounted below. Who drops a name would unmount what is mounted below that, so no more names are
    /// kept, and the others are asked for again one by one.
    has_mounts: bool,
    /// What it has of the data of files.
    pub(crate) pages: Pages,
    pub(crate) listings: Listings,
    /// How often the names were dropped, from 1 on.
    epoch: u64,
}

#[derive(Debug)]
struct Node {
    fid: Fid,
    /// How often the kernel has been told.
    lookups: u64,
    /// The names of it that the kernel was told to keep, and those in it that do not exist.
    named: KernelNames,
    absent: KernelNames,
    /// Whether the kernel was told its attributes to keep.
    attributes: bool,
}

/// What the kernel may keep of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelCache<'a> {
    /// A name, with its directory.
    pub(crate) name: Option<(Fid, &'a [u8])>,
    pub(crate) attributes: bool,
}

/// What the kernel has to drop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invalidation {
    /// All names.
    pub(crate) names: bool,
    /// These names, which it asks for again: what is mounted below stays.
    pub(crate) expired: Vec<Name>,
    /// The attributes of these files.
    pub(crate) attributes: Vec<u64>,
    /// The pages of these: dropping them has begun.
    pub(crate) pages: Vec<u64>,
}

impl Nodes {
    /// The kernel knows the root, and never forgets it.
    pub(crate) fn new(root: Fid) -> Self {
        let node = Node { lookups: 1, ..Node::new(root) };
        Self {
            by_number: [(ROOT, node)].into(),
            by_fid: [(root, ROOT)].into(),
            keeps_names: false,
            has_mounts: false,
            pages: Pages::default(),
            listings: Listings::default(),
            epoch: 1,
        }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns the file with a number.
    pub(crate) fn fid(&self, number: u64) -> Option<Fid> {
        self.by_number.get(&number).map(|node| node.fid)
    }

    /// Returns the number of a file that the kernel is told now, and what it may keep of what locks protect.
    pub(crate) fn tell<'a>(
        &mut self,
        fid: Fid,
        protected: KernelCache<'a>,
    ) -> (u64, KernelCache<'a>) {
        let known = self.by_fid.get(&fid).copied();
        let number = known.unwrap_or_else(|| self.free_number(fid));
        let (epoch, may) = (self.epoch, self.may_keep_names());
        let name = protected.name.filter(|_| may);
        let place = name.and_then(|(parent, name)| Some((*self.by_fid.get(&parent)?, name)));
        let node = self.by_number.entry(number).or_insert_with(|| Node::new(fid));
        node.lookups += 1;
        let name = name.filter(|_| place.is_some_and(|place| node.named.add(epoch, place)));
        node.attributes |= protected.attributes;
        self.by_fid.insert(fid, number);
        (number, KernelCache { name, ..protected })
    }

    /// The kernel is told attributes to keep.
    pub(crate) fn tell_attributes(&mut self, fid: Fid) {
        if let Some(node) = self.node_mut(fid) {
            node.attributes = true;
        }
    }

    /// Returns whether the kernel may keep that a name in a directory does not exist, which it is told now.
    pub(crate) fn tell_absent(&mut self, directory: Fid, name: &[u8]) -> bool {
        let (epoch, may) = (self.epoch, self.may_keep_names());
        let Some(number) = self.by_fid.get(&directory).copied().filter(|_| may) else {
            return false;
        };
        let node = self.by_number.get_mut(&number);
        node.is_some_and(|node| node.absent.add(epoch, (number, name)))
    }

    /// Returns whether the kernel may keep names now.
    pub(crate) fn may_keep_names(&self) -> bool {
        self.keeps_names && !self.has_mounts
    }

    /// Something is mounted below, or nothing any more. Returns the names that the kernel has to ask for again.
    pub(crate) fn set_mounts(&mut self, has_mounts: bool) -> Vec<Name> {
        self.has_mounts = has_mounts;
        if has_mounts { self.expire_all() } else { Vec::new() }
    }

    fn expire_all(&mut self) -> Vec<Name> {
        let epoch = self.epoch;
        let kept = |node: &mut Node| [node.named.take(epoch), node.absent.take(epoch)];
        self.by_number.values_mut().flat_map(kept).flatten().collect()
    }

    fn node(&self, fid: Fid) -> Option<&Node> {
        self.by_number.get(self.by_fid.get(&fid)?)
    }

    fn node_mut(&mut self, fid: Fid) -> Option<&mut Node> {
        self.by_number.get_mut(self.by_fid.get(&fid)?)
    }

    /// Numbers have fewer bits than FIDs.
    fn free_number(&self, fid: Fid) -> u64 {
        let mut number = inode(fid);
        while number <= ROOT || self.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// Names of an open directory may be told to the kernel from now on.
    pub(crate) fn begin_listing(&mut self, handle: u64, reader: u32) {
        self.listings.begin((handle, reader), self.epoch);
    }

    /// Returns whether the kernel may not have read names that it was told before all were lost.
    pub(crate) fn has_unread_listings(&self) -> bool {
        self.listings.has_unread(self.epoch)
    }

    /// The kernel has had its time to read them.
    pub(crate) fn give_up_listings(&mut self) {
        self.listings.give_up(self.epoch);
    }

    /// Forgets that the kernel has been told so often. Returns whether a listing was waited for in vain that it has
    /// read now.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) -> bool {
        let Some(node) = self.by_number.get_mut(&number).filter(|_| number != ROOT) else {
            return false;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return false;
        }
        self.by_fid.remove(&node.fid);
        self.by_number.remove(&number);
        self.pages.forget(number);
        self.listings.given_back(number)
    }

    /// The kernel keeps nothing any more.
    pub(crate) fn forget_all(&mut self) {
        self.by_number.clear();
        self.by_fid.clear();
        self.pages = Pages::default();
        self.listings = Listings::default();
        self.keeps_names = false;
    }

    /// Returns whether the kernel keeps something of this.
    pub(crate) fn concerns(&self, stale: &[Stale]) -> bool {
        stale.iter().any(|one| match one {
            Stale::Attributes(fid) => self.node(*fid).is_some_and(|node| node.attributes),
            Stale::Names(fid) => self.keeps_name(*fid),
            Stale::Content { file, .. } => {
                self.keeps_absent(*file)
                    || self.by_fid.get(file).is_some_and(|number| self.pages.concerns(*number))
            }
            Stale::Everything => !self.by_number.is_empty(),
        })
    }

    /// Returns whether the kernel keeps a name of a file, and its attributes.
    pub(crate) fn is_kept(&self, fid: Fid) -> bool {
        self.keeps_name(fid) && self.node(fid).is_some_and(|node| node.attributes)
    }

    fn keeps_name(&self, fid: Fid) -> bool {
        self.node(fid).is_some_and(|node| node.named.is_kept(self.epoch))
    }

    /// Returns whether the kernel keeps that a name in a directory does not exist.
    fn keeps_absent(&self, directory: Fid) -> bool {
        self.node(directory).is_some_and(|node| node.absent.is_kept(self.epoch))
    }

    /// Returns what the kernel has to drop, and notes that it keeps that no more.
    pub(crate) fn lose(&mut self, stale: &[Stale]) -> Invalidation {
        let mut lost = Invalidation::default();
        for one in stale {
            match one {
                Stale::Attributes(fid) => {
                    let number = self.by_fid.get(fid).copied();
                    let node = self.node_mut(*fid).filter(|node| node.attributes);
                    if let (Some(number), Some(node)) = (number, node) {
                        node.attributes = false;
                        lost.attributes.push(number);
                    }
                }
                Stale::Names(fid) => {
                    lost.names |= self.keeps_name(*fid);
                    lost.expired.extend(self.expire(*fid, |node| &mut node.named));
                }
                Stale::Content { file, .. } => {
                    lost.names |= self.keeps_absent(*file);
                    lost.expired.extend(self.expire(*file, |node| &mut node.absent));
                    let number = self.by_fid.get(file).copied();
                    lost.pages.extend(number.filter(|number| self.pages.lose(*number)));
                }
                Stale::Everything => {
                    lost.names = self.keeps_names;
                    if self.has_mounts {
                        lost.expired.extend(self.expire_all());
                    }
                    let kept = self.by_number.iter_mut().filter(|(_, node)| node.attributes);
                    lost.attributes.extend(kept.map(|(number, node)| {
                        node.attributes = false;
                        *number
                    }));
                    lost.pages.extend(self.pages.lose_all());
                }
            }
        }
        lost.names &= !self.has_mounts;
        self.epoch += u64::from(lost.names);
        lost
    }

    /// Returns the names to ask for again if they cannot be dropped.
    fn expire(&mut self, fid: Fid, of: impl Fn(&mut Node) -> &mut KernelNames) -> Vec<Name> {
        let epoch = self.epoch;
        let node = if self.has_mounts { self.node_mut(fid) } else { None };
        node.map(|node| of(node).take(epoch)).unwrap_or_default()
    }
}

impl Node {
    fn new(fid: Fid) -> Self {
        let (named, absent) = (KernelNames::default(), KernelNames::default());
        Self { fid, lookups: 0, named, absent, attributes: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: 0x2_0000_0400, oid: 7, version: 0 };
    /// It has the same number.
    const B: Fid = Fid { seq: 0x2_0000_0400, oid: 7, version: 1 };
    const TOP: Fid = Fid { seq: 0x2_0000_0007, oid: 1, version: 0 };
    const NAME: &[u8] = b"name";
    const BOTH: KernelCache<'_> = KernelCache { name: Some((TOP, NAME)), attributes: true };
    const NOTHING: Invalidation = Invalidation {
        names: false,
        expired: Vec::new(),
        attributes: Vec::new(),
        pages: Vec::new(),
    };
    const NAMES: Invalidation = Invalidation {
        names: true,
        expired: Vec::new(),
        attributes: Vec::new(),
        pages: Vec::new(),
    };

    fn absent(file: Fid) -> Stale {
        Stale::Content { file, start: 0, end: u64::MAX }
    }

    #[test]
    fn a_file_has_its_number_until_it_is_forgotten() {
        let mut nodes = Nodes::new(TOP);
        let tell = |nodes: &mut Nodes, fid| nodes.tell(fid, KernelCache::default()).0;
        let number = tell(&mut nodes, A);
        assert_eq!((number, tell(&mut nodes, A)), (inode(A), number));
        let other = tell(&mut nodes, B);
        assert_ne!(other, number);
        assert_eq!((nodes.fid(number), nodes.fid(other)), (Some(A), Some(B)));
        nodes.forget(number, 1);
        assert_eq!(nodes.fid(number), Some(A));
        nodes.forget(number, 1);
        assert_eq!((nodes.fid(number), nodes.fid(other)), (None, Some(B)));
        nodes.forget(ROOT, u64::MAX);
        assert!(nodes.fid(ROOT).is_some());
    }

    #[test]
    fn what_the_kernel_keeps_is_dropped_once() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        let (number, kept) = nodes.tell(A, BOTH);
        assert_eq!(kept, BOTH);
        let stale = [Stale::Attributes(A), Stale::Names(A)];
        assert!(nodes.concerns(&stale) && nodes.concerns(&stale[1..]));
        assert_eq!(nodes.lose(&stale), Invalidation { attributes: vec![number], ..NAMES });
        assert!(!nodes.concerns(&stale));
        assert_eq!(nodes.lose(&stale), Invalidation::default());
        // What is sent without a lifetime is not kept.
        nodes.tell(A, KernelCache::default());
        assert!(!nodes.concerns(&stale));
        nodes.tell_attributes(A);
        assert_eq!(
            nodes.lose(&stale),
            Invalidation { names: false, attributes: vec![number], ..NAMES }
        );
        nodes.forget(number, 2);
        nodes.tell_attributes(A);
        assert!(!nodes.concerns(&stale));
    }

    #[test]
    fn all_names_are_dropped_together() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        nodes.tell(A, BOTH);
        nodes.tell(B, BOTH);
        assert!(nodes.tell_absent(TOP, b"none"));
        assert!(nodes.concerns(&[absent(TOP)]) && !nodes.concerns(&[absent(A)]));
        assert_eq!(nodes.lose(&[Stale::Names(A)]), NAMES);
        assert!(!nodes.concerns(&[Stale::Names(B), absent(TOP)]));
        assert!(nodes.concerns(&[Stale::Attributes(B)]));
        assert!(nodes.tell_absent(TOP, b"none"));
        assert_eq!(nodes.lose(&[absent(TOP)]), NAMES);
    }

    #[test]
    fn names_are_kept_only_if_they_can_be_dropped() {
        let mut nodes = Nodes::new(TOP);
        let (_, kept) = nodes.tell(A, BOTH);
        assert_eq!(kept, KernelCache { name: None, attributes: true });
        assert!(!nodes.tell_absent(TOP, b"none"));
        assert_eq!(nodes.lose(&[Stale::Names(A), absent(TOP)]), Invalidation::default());
    }

    #[test]
    fn names_are_asked_for_again_one_by_one_while_something_is_mounted_below() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        nodes.tell(A, BOTH);
        assert!(nodes.tell_absent(TOP, b"none"));
        let mut told = nodes.set_mounts(true);
        told.sort_unstable();
        let name = |name: &[u8]| (ROOT, name.into());
        assert_eq!(told, [name(NAME), name(b"none")]);
        assert!(!nodes.concerns(&[Stale::Names(A), absent(TOP)]));
        // Nothing more is kept until nothing is mounted there any more.
        assert_eq!(nodes.tell(A, BOTH).1, KernelCache { name: None, attributes: true });
        assert!(!nodes.tell_absent(TOP, b"none"));
        assert!(!nodes.lose(&[Stale::Everything]).names);
        assert_eq!(nodes.set_mounts(false), []);
        assert_eq!(nodes.tell(A, BOTH).1, BOTH);
        assert_eq!(nodes.lose(&[Stale::Names(A)]), NAMES);
    }

    #[test]
    fn names_that_are_lost_while_something_is_mounted_below_are_not_dropped() {
        for (stale, is_absent) in
            [(Stale::Names(A), false), (absent(TOP), true), (Stale::Everything, false)]
        {
            let mut nodes = Nodes::new(TOP);
            nodes.keeps_names = true;
            if is_absent {
                nodes.tell_absent(TOP, NAME);
            } else {
                nodes.tell(A, KernelCache { attributes: false, ..BOTH });
            }
            nodes.has_mounts = true;
            assert!(nodes.concerns(std::slice::from_ref(&stale)));
            let lost = nodes.lose(std::slice::from_ref(&stale));
            assert_eq!(lost, Invalidation { expired: vec![(ROOT, NAME.into())], ..NOTHING });
            assert_eq!(nodes.lose(&[stale]), NOTHING);
        }
    }

    #[test]
    fn pages_are_lost_with_the_content_of_their_file() {
        let mut nodes = Nodes::new(TOP);
        let (number, _) = nodes.tell(A, KernelCache::default());
        let fill = nodes.pages.begin(number, 0..4096);
        nodes.pages.attempt(number, fill);
        nodes.pages.found(number, fill, true);
        assert!(nodes.concerns(&[absent(A)]) && !nodes.concerns(&[absent(TOP)]));
        let pages = vec![number];
        let lost = nodes.lose(&[absent(TOP), absent(A)]);
        assert_eq!(lost, Invalidation { names: false, pages: pages.clone(), ..NAMES });
        assert_eq!(nodes.lose(&[Stale::Everything]).pages, pages);
    }

    #[test]
    fn a_file_is_kept_with_a_name_and_attributes_of_this_epoch() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        assert!(!nodes.is_kept(A));
        nodes.tell(A, KernelCache { attributes: false, ..BOTH });
        assert!(!nodes.is_kept(A));
        nodes.tell(A, BOTH);
        assert!(nodes.is_kept(A));
        nodes.lose(&[Stale::Attributes(A)]);
        assert!(!nodes.is_kept(A));
        nodes.tell(A, BOTH);
        nodes.lose(&[Stale::Names(A)]);
        assert!(!nodes.is_kept(A));
    }

    #[test]
    fn replies_of_earlier_epochs_are_waited_for() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        nodes.begin_listing(1, 0);
        nodes.tell(A, BOTH);
        assert!(!nodes.has_unread_listings());
        nodes.lose(&[Stale::Names(A)]);
        assert!(nodes.has_unread_listings());
        nodes.begin_listing(2, 0);
        nodes.listings.read_by(1);
        assert!(!nodes.has_unread_listings());
    }

    #[test]
    fn a_file_that_was_told_more_often_than_it_is_given_back_does_not_say_what_was_read() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        let (number, _) = nodes.tell(A, BOTH);
        nodes.begin_listing(1, 0);
        nodes.tell(B, BOTH);
        nodes.tell(A, KernelCache::default());
        nodes.listings.end(1, Some(number));
        nodes.lose(&[Stale::Names(B)]);
        // The kernel may have had no memory for what it was told first.
        assert!(!nodes.forget(number, 1) && nodes.has_unread_listings());
        nodes.give_up_listings();
        assert!(nodes.forget(number, 1) && !nodes.has_unread_listings());
    }

    #[test]
    fn after_an_eviction_nothing_is_kept() {
        let mut nodes = Nodes::new(TOP);
        nodes.keeps_names = true;
        nodes.tell_attributes(TOP);
        let (number, _) = nodes.tell(A, BOTH);
        nodes.tell(B, KernelCache::default());
        let lost = nodes.lose(&[Stale::Everything]);
        assert_eq!(lost, Invalidation { attributes: vec![ROOT, number], ..NAMES });
        assert!(!nodes.concerns(&[Stale::Attributes(A), Stale::Names(A)]));
        nodes.tell(A, BOTH);
        nodes.forget_all();
        let all = [Stale::Attributes(A), Stale::Names(A), Stale::Everything];
        assert!(!nodes.concerns(&all));
    }
}
