//! Random operations from a seed.

use fulmar_base::Rng;

use super::operation::{Operation, Step};
use super::outcome::Kind;
use super::words::{
    Access, Acl, AclEntry, Flags, How, Layout, Mode, Owner, Slot, Target, Value, What,
};
use super::world::{Node, World};

/// What is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many clients there are.
    pub clients: u8,
    /// How many operations.
    pub steps: usize,
    /// Whether there are faults among them.
    pub faults: bool,
    /// Whether clients do some at the same time.
    pub together: bool,
    /// The layout of new files; by default each seed draws some.
    pub layout: Option<Layout>,
}

/// Slots of each client.
pub(super) const SLOTS: u64 = 3;
/// What files have borders at: stripes, components, and the part on the MDT.
const BORDER: u64 = 64 << 10;
/// The longest part.
const LEN_MAX: u64 = 160 << 10;
/// The longest file but for those that are very long.
const SIZE_MAX: u64 = 600 << 10;
/// The part of a file that is used most.
const HOT: u64 = 8 << 10;
const DIRECTORIES: &[&str] = &["", "", "/d0", "/d1", "/d0/d2"];
pub(super) const NAMES: &[&str] = &["f0", "f1", "f2", "f3", "d0", "d1", "d2", "s0"];
/// What symbolic links point to.
const TARGETS: &[&str] = &["f0", "f1", "d0", "d0/f0", "d2", "s0", "nothing"];

/// Kinds of operations, each with a weight of its own in each run: what is rare together with all others is met often in some.
const CLASSES: usize = 4;
/// One in so many opens is for direct I/O, and one for synchronous writes.
const SPECIAL: u64 = 8;
/// What is locked is in this many bytes of a file.
const LOCKED: u64 = 90;
/// One in so many operations is a fault.
const FAULT: u64 = 60;
/// How many milliseconds after its operation a connection breaks at most: that may be during one of the next ones.
const AFTER_MAX: u64 = 40;
/// One in so many operations are several at the same time.
const TOGETHER: u64 = 12;

pub(super) struct Generator {
    pub(super) rng: Rng,
    pub(super) world: World,
    pub(super) settings: Settings,
    weights: [u64; CLASSES],
    /// Whether files may be longer than 32 bits count.
    has_long: bool,
    /// Whether faults are those of clients, or of servers.
    has_kills: bool,
    layouts: Vec<Layout>,
}

/// Returns the operations of a seed.
pub fn generate(seed: u64, settings: Settings) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let weights = [0; CLASSES].map(|_| [1, 3, 10][rng.below(3) as usize]);
    let layouts = match (settings.layout, rng.below(3)) {
        (Some(layout), _) => vec![layout],
        (None, 0) => Layout::ALL.to_vec(),
        (None, _) => vec![*pick(&mut rng, Layout::ALL)],
    };
    let has_long = rng.one_in(3);
    let has_kills = rng.one_in(2);
    let world = World::default();
    let mut this = Generator { rng, world, settings, weights, has_long, has_kills, layouts };
    let mut steps = Vec::new();
    while steps.len() < settings.steps {
        let more = if settings.together && !this.is_full() && this.rng.one_in(TOGETHER) {
            this.together()
        } else if settings.faults && this.rng.one_in(FAULT) {
            this.fault()
        } else {
            vec![this.step()]
        };
        more.iter().for_each(|step| drop(this.world.apply(step)));
        steps.extend(more);
    }
    steps
}

pub(super) fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.below(all.len() as u64) as usize]
}

impl Generator {
    fn step(&mut self) -> Step {
        let client = self.client();
        let mut drawn = self.rng.below(self.weights.iter().sum());
        let class = self.weights.iter().position(|weight| {
            let is_here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_here
        });
        let operation = match class {
            Some(0) => self.data(client),
            Some(1) => self.names(),
            Some(2) => self.attributes(),
            _ => self.locks(client),
        };
        Step::alone(client, operation)
    }

    /// Returns what happens to servers or clients. After an eviction others ask for what its client may have locked.
    fn fault(&mut self) -> Vec<Step> {
        let client = self.client();
        if self.rng.one_in(3) {
            return self.room(client);
        }
        if self.has_kills {
            return self.kill(client);
        }
        let operation = match self.rng.below(4) {
            // A request that is lost costs 16 seconds.
            0 => Operation::Disconnect { after: self.rng.below(AFTER_MAX) },
            1 => Operation::Evict {},
            _ => Operation::Restart { target: *pick(&mut self.rng, Target::ALL) },
        };
        let mut steps = vec![Step::alone(client, operation)];
        if let Operation::Evict {} = steps[0].operation {
            let owners = self.world.inodes.values().flat_map(|inode| inode.locks.clients());
            let owners: Vec<u8> = owners.collect();
            if !owners.is_empty() {
                steps[0].client = *pick(&mut self.rng, &owners);
            }
            let client = steps[0].client;
            let opens = &self.world.opens;
            let is_open = |inode| {
                opens.iter().any(|((other, _), open)| *other == client && open.inode == inode)
            };
            let share = Access { read: true, write: true, ..Access::default() };
            let others =
                opens.iter().filter(|((other, _), open)| *other != client && is_open(open.inode));
            steps.extend(others.map(|((other, slot), _)| {
                let (slot, owner, start, len) = (*slot, Owner::Process, 0, LOCKED);
                Step::alone(*other, Operation::TestLock { slot, owner, share, start, len })
            }));
        }
        steps
    }

    fn is_full(&self) -> bool {
        !self.world.full().is_empty()
    }

    /// Fills a target and has a client write, or drains one that is full. A client may have a grant from before: mostly it
    /// loses that first, and needs room for all that it writes.
    fn room(&mut self, client: u8) -> Vec<Step> {
        let full: Vec<Target> = self.world.full().iter().copied().collect();
        if !full.is_empty() && self.rng.one_in(2) {
            let target = *pick(&mut self.rng, &full);
            return vec![Step::alone(client, Operation::Drain { target })];
        }
        let target = match self.rng.below(8) {
            0 => Target::All,
            1 => Target::Mdt,
            _ => *pick(&mut self.rng, &Target::OSTS),
        };
        let mut steps = vec![Step::alone(client, Operation::Fill { target })];
        if !self.rng.one_in(4) {
            let ends = if self.has_kills { Operation::Kill {} } else { Operation::Evict {} };
            steps.push(Step::alone(client, ends));
        }
        let Operation::Open { slot, path, access, layout } = self.open() else { return steps };
        let access = Access { read: true, write: true, create: true, exclusive: false, ..access };
        steps.push(Step::alone(client, Operation::Open { slot, path, access, layout }));
        for _ in 0..self.rng.between(1, 4) {
            let (at, len, pattern) = (self.place(BORDER), self.len(), self.rng.below(1000));
            steps.push(Step::alone(client, Operation::Write { slot, at, len, pattern }));
        }
        steps.push(Step::alone(client, Operation::Sync { slot }));
        steps
    }

    /// Returns the end of a client, which often saves something before.
    fn kill(&mut self, client: u8) -> Vec<Step> {
        let is_sync = |access: &Access| access.write && (access.sync || access.direct);
        let before = match self.rng.below(3) {
            0 => self.slot(client, |_| true).map(|(slot, _)| Operation::Sync { slot }),
            1 => self.slot(client, is_sync).map(|(slot, size)| {
                let (at, len, pattern) = (self.place(size), self.len(), self.rng.below(1000));
                Operation::Write { slot, at, len, pattern }
            }),
            _ => None,
        };
        let operations = before.into_iter().chain([Operation::Kill {}]);
        operations.map(|operation| Step::alone(client, operation)).collect()
    }

    fn client(&mut self) -> u8 {
        self.rng.below(self.settings.clients.into()) as u8
    }

    /// Returns a path: mostly one of a kind that is there.
    fn path(&mut self, kind: Option<Kind>) -> String {
        if !self.rng.one_in(4) {
            let paths = self.world.paths();
            let mut paths: Vec<_> =
                paths.iter().filter(|(_, other)| kind.is_none_or(|kind| kind == *other)).collect();
            // The directory of the run is changed as well, but not as often.
            paths.retain(|(path, _)| path != "/" || self.rng.one_in(3));
            if !paths.is_empty() {
                return pick(&mut self.rng, &paths).0.clone();
            }
        }
        let (directory, name) = (pick(&mut self.rng, DIRECTORIES), pick(&mut self.rng, NAMES));
        format!("{directory}/{name}")
    }

    /// Returns an open slot of a client that fits.
    fn slot(&mut self, client: u8, fits: impl Fn(&Access) -> bool) -> Option<(Slot, u64)> {
        let opens = self.world.opens.iter().filter(|((other, _), _)| *other == client);
        let opens: Vec<_> = opens
            .filter(|(_, open)| fits(&open.access))
            .map(|((_, slot), open)| (*slot, open.inode))
            .collect();
        let (slot, inode) = *opens.get(self.rng.below(opens.len() as u64) as usize)?;
        let Node::File(data) = &self.world.inodes[&inode].node else { return None };
        Some((slot, data.size()))
    }

    fn data(&mut self, client: u8) -> Operation {
        let kind = self.rng.below(27);
        if kind < 4 {
            return self.open();
        }
        if kind == 4 {
            let (path, size) = (self.path(Some(Kind::File)), self.place(BORDER));
            return Operation::Truncate { path, size };
        }
        let writes = (9..18).contains(&kind);
        let maps = (22..=25).contains(&kind);
        let fits = move |access: &Access| {
            let may = if writes { access.write } else { access.read };
            may && (!maps || access.write)
        };
        let Some((slot, size)) = self.slot(client, fits) else { return self.open() };
        let mut at = self.place(size);
        if maps && self.rng.one_in(2) {
            at = self.rng.below(HOT);
        }
        match kind {
            5..=8 => {
                let len = self.len();
                Operation::Read { slot, at, len }
            }
            9..=13 => {
                let (len, pattern) = (self.len(), self.rng.below(1000));
                Operation::Write { slot, at, len, pattern }
            }
            14 | 15 => Operation::Cut { slot, size: at },
            16 | 17 => {
                let (len, how) = (self.len(), *pick(&mut self.rng, How::ALL));
                Operation::Allocate { slot, at, len, how }
            }
            18 => Operation::Seek { slot, at, what: *pick(&mut self.rng, What::ALL) },
            19 => Operation::Sync { slot },
            20 => Operation::Close { slot },
            22 | 23 if !self.is_full() => {
                let (len, pattern) = (self.len(), self.rng.below(1000));
                Operation::Store { slot, at, len, pattern }
            }
            22..=24 => Operation::Load { slot, at, len: self.len() },
            25 => {
                let fits = |access: &Access| access.write && !access.append;
                let Some((to, size)) = self.slot(client, fits) else { return self.open() };
                let (start, len) = (self.place(size), self.len());
                Operation::Copy { slot, at, len, to, start }
            }
            26 => {
                let (len, pattern) = (self.len(), self.rng.below(1000));
                Operation::Private { slot, at, len, pattern }
            }
            _ => Operation::StatOpen { slot },
        }
    }

    /// Returns an offset, mostly near a border of a file of this size.
    fn place(&mut self, size: u64) -> u64 {
        let near = |rng: &mut Rng, at: u64| (at + rng.below(5)).saturating_sub(2);
        match self.rng.below(if self.has_long { 11 } else { 10 }) {
            0 => 0,
            1 => size,
            2 => size.saturating_sub(self.rng.below(5000)),
            3 => near(&mut self.rng, size),
            4 => {
                let border = self.rng.below(SIZE_MAX / BORDER) * BORDER;
                near(&mut self.rng, border)
            }
            5 => 4096 * self.rng.below(SIZE_MAX / 4096),
            6 => self.rng.below(size + 1),
            7 => self.rng.below(SIZE_MAX),
            // Where others write as well.
            8 | 9 => self.rng.below(HOT),
            _ => {
                let long = [(1u64 << 31) - 50, (1 << 32) - 50, 1 << 40][self.rng.below(3) as usize];
                long + self.rng.below(100)
            }
        }
    }

    fn len(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.between(1, 10),
            1 => self.rng.between(1, 5000),
            2 => 4096 * self.rng.between(1, LEN_MAX / 4096),
            _ => self.rng.between(1, LEN_MAX),
        }
    }

    pub(super) fn open(&mut self) -> Operation {
        let slot = Slot(self.rng.below(SLOTS) as u8);
        let path = self.path(Some(Kind::File));
        let mut access = match self.rng.below(6) {
            0 => Access { read: true, ..Access::default() },
            1 => Access { write: true, ..Access::default() },
            _ => Access { read: true, write: true, ..Access::default() },
        };
        access.create = self.rng.one_in(2);
        if access.write {
            access.append = self.rng.one_in(5);
            access.truncate = self.rng.one_in(6);
        }
        access.direct = self.rng.one_in(SPECIAL);
        access.sync = self.rng.one_in(SPECIAL);
        access.exclusive = access.create && self.rng.one_in(6);
        let layout = *pick(&mut self.rng, &self.layouts);
        Operation::Open { slot, path, access, layout }
    }

    /// Returns a path that is not the directory of the run.
    fn name(&mut self, kind: Option<Kind>) -> String {
        let path = self.path(kind);
        if path == "/" { "/d0".to_owned() } else { path }
    }

    /// Returns a path that is mostly free.
    fn new_name(&mut self) -> String {
        format!("{}/{}", pick(&mut self.rng, DIRECTORIES), pick(&mut self.rng, NAMES))
    }

    fn names(&mut self) -> Operation {
        let mode = self.mode();
        match self.rng.below(14) {
            0 | 1 => Operation::MakeDirectory { path: self.name(None), mode },
            2 => Operation::RemoveDirectory { path: self.name(Some(Kind::Directory)) },
            3 | 4 => Operation::Unlink { path: self.name(Some(Kind::File)) },
            5 | 6 => Operation::Rename { from: self.name(None), to: self.name(None) },
            7 => Operation::Link { from: self.name(Some(Kind::File)), to: self.new_name() },
            8 => {
                let target = (*pick(&mut self.rng, TARGETS)).to_owned();
                Operation::Symlink { path: self.name(None), target }
            }
            9 => Operation::ReadLink { path: self.path(Some(Kind::Symlink)) },
            10 | 11 => {
                let skip = self.rng.below(6);
                Operation::List { path: self.path(Some(Kind::Directory)), skip }
            }
            _ => Operation::Stat { path: self.path(None) },
        }
    }

    pub(super) fn mode(&mut self) -> Mode {
        Mode(*pick(&mut self.rng, &[0o755, 0o700, 0o777, 0o640, 0o511, 0o000, 0o666]))
    }

    fn attributes(&mut self) -> Operation {
        let path = self.path(None);
        let directory = self.path(Some(Kind::Directory));
        let name = format!("user.{}", pick(&mut self.rng, &["a", "b", "c"]));
        match self.rng.below(16) {
            0 | 1 => Operation::Chmod { path, mode: self.mode() },
            2 => {
                let number = self.world.resolve(&directory, true);
                let is_directory =
                    number.is_ok_and(|number| self.world.inodes[&number].kind() == Kind::Directory);
                let set_group = if is_directory { 0o2000 } else { 0 };
                Operation::Chmod { path: directory, mode: Mode(set_group | self.mode().0) }
            }
            3 => {
                let (uid, gid) = (self.rng.below(4) as u32, self.rng.below(4) as u32);
                Operation::Chown { path, uid, gid }
            }
            4 | 5 => {
                let times = [-300_000_000, -1, 0, 1, 1_000_000_000, 4_000_000_000, 5_000_000_000];
                let (atime, mtime) = (*pick(&mut self.rng, &times), *pick(&mut self.rng, &times));
                Operation::Utimes { path, atime, mtime }
            }
            6 | 7 => {
                let len = *pick(&mut self.rng, &[0, 1, 30, 700]);
                let value = Value("v".repeat(len) + &self.rng.below(10).to_string());
                let value = if len == 0 { Value(String::new()) } else { value };
                let flags = *pick(&mut self.rng, Flags::ALL);
                Operation::SetXattr { path, name, value, flags }
            }
            8 => Operation::GetXattr { path, name },
            9 => Operation::ListXattrs { path },
            10 => Operation::RemoveXattr { path, name },
            11 => Operation::SetAcl { path, acl: self.acl() },
            12 => Operation::SetDefault { path: directory, acl: self.acl() },
            13 => Operation::GetAcl { path },
            14 => Operation::GetDefault { path: directory },
            _ => Operation::RemoveDefault { path: directory },
        }
    }

    fn acl(&mut self) -> Acl {
        let mut entries = Acl::of_mode(self.mode().0 | 0o600).0;
        if !self.rng.one_in(3) {
            for (tag, id) in [(2, 5), (2, 7), (8, 9), (16, AclEntry::NO_ID)] {
                if tag == 16 || self.rng.one_in(2) {
                    entries.push(AclEntry { tag, id, permissions: self.rng.below(8) as u16 });
                }
            }
        }
        entries.sort_unstable();
        Acl(entries)
    }

    fn locks(&mut self, client: u8) -> Operation {
        let share = Access { read: true, write: self.rng.one_in(2), ..Access::default() };
        let fits = move |access: &Access| if share.write { access.write } else { access.read };
        let Some((slot, _)) = self.slot(client, fits) else { return self.open() };
        let owner = if self.rng.one_in(2) { Owner::Process } else { of_open_file(slot) };
        let (start, len) = (10 * self.rng.below(6), 10 * self.rng.between(1, 4));
        match self.rng.below(7) {
            0..=2 => Operation::Lock { slot, owner, share, start, len },
            3 | 4 => Operation::Unlock { slot, owner, start, len },
            5 if owner != Owner::Flock => Operation::TestLock { slot, owner, share, start, len },
            _ => Operation::Close { slot },
        }
    }
}

/// Returns how an open file is locked. Locks by `flock` and OFD locks of one open file have one owner by FUSE, and two by a kernel
/// client: only one kind is used for each.
pub(super) fn of_open_file(slot: Slot) -> Owner {
    if slot.0.is_multiple_of(2) { Owner::OpenFile } else { Owner::Flock }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SETTINGS: Settings =
        Settings { clients: 3, steps: 200, faults: true, together: true, layout: None };

    #[test]
    fn a_seed_repeats_its_operations_and_others_have_others() {
        assert_eq!(generate(7, SETTINGS), generate(7, SETTINGS));
        assert_ne!(generate(7, SETTINGS), generate(8, SETTINGS));
    }

    #[test]
    fn faults_of_a_seed_are_those_of_servers_or_of_clients() {
        let has =
            |seed, verb| generate(seed, SETTINGS).iter().any(|step| step.operation.verb() == verb);
        let kinds = (0..40).map(|seed| (has(seed, "kill"), has(seed, "restart")));
        let kinds: BTreeSet<_> = kinds.collect();
        assert!(kinds.contains(&(true, false)) && kinds.contains(&(false, true)), "{kinds:?}");
        assert!(!kinds.contains(&(true, true)), "{kinds:?}");
    }

    #[test]
    fn most_operations_are_possible_and_each_is_drawn() {
        let (mut verbs, mut done, mut all) = (BTreeSet::new(), 0, 0);
        for seed in 0..40 {
            let mut world = World::default();
            for step in generate(seed, SETTINGS) {
                verbs.insert(step.operation.verb());
                let expected = world.apply(&step);
                let is_refused = matches!(expected.example(), crate::model::Outcome::Failed(_));
                (done, all) = (done + usize::from(!is_refused), all + 1);
                assert_eq!(step.to_string().parse(), Ok(step));
            }
        }
        assert_eq!(verbs.len(), 44, "{verbs:?}");
        assert!(done * 2 > all, "{done} of {all}");
    }
}
