//! The applications on the nodes: random operations, and the buffers that they need.

mod issue;
mod react;

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Rng, Time};
use fulmar_lnet::{Md, MdId, MdOptions, Me, MePosition, Memory, PingReply, QueryId};
use fulmar_lnet_wire::{Nid, Pid, ProcessId};

use crate::HostId;
use crate::check::ledger::{Ledger, MdKey};
use crate::options::{Kind, Options, pick};
use crate::queue::Queue;
use crate::words;
use crate::world::World;

/// The portals of the different kinds of MDs.
pub(crate) mod portals {
    /// MDs for one operation of one node.
    pub(crate) const UNIQUE: u32 = 10;
    /// MDs for one operation of any node.
    pub(crate) const WILDCARD: u32 = 11;
    /// Request buffers for all nodes; lazy.
    pub(crate) const REQUEST: u32 = 12;
    /// No MDs.
    pub(crate) const NOTHING: u32 = 13;
    /// A region that all nodes may read.
    pub(crate) const REGION: u32 = 14;
}

/// The longest request, in bytes.
pub(crate) const REQUEST_MAX: u32 = 16 << 10;
/// The length of a region, in bytes.
pub(crate) const REGION_LEN: u32 = 4 << 20;
/// The length of a request buffer, in bytes: room for at least four requests.
const REQUEST_BUFFER: u64 = 64 << 10;

/// The applications of all nodes.
#[derive(Debug)]
pub struct Workload {
    pub(crate) rng: Rng,
    pub(crate) options: Options,
    /// Scheduled operations, posts and unlinks.
    pub(crate) agenda: Queue<Plan>,
    pub(crate) next_buffer: u64,
    /// The readable region of each node.
    pub(crate) regions: BTreeMap<HostId, BufferId>,
    /// The results of pings and discoveries; `None` while in progress.
    pub(crate) queries: BTreeMap<(HostId, QueryId), Option<Answer>>,
    /// Faults are over: buffers are posted at once.
    pub(crate) prompt: bool,
    /// The NIDs of the operation being started, if they are given.
    pub(crate) pinned: Option<(Option<Nid>, Nid)>,
}

/// A scheduled action of an application.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Start an operation of this kind.
    Issue(Kind),
    /// Post a request buffer.
    Post { host: HostId, incarnation: u32 },
    /// Unlink an MD.
    Unlink(MdKey),
}

impl Workload {
    /// Draws the operations, and posts the initial MDs.
    pub fn new(options: &Options, world: &mut World, ledger: &mut Ledger) -> Self {
        let mut rng = Rng::new(options.seed ^ WORKLOAD_STREAM);
        let mut agenda = Queue::default();
        let bunches = options.bunch_times();
        for _ in 0..options.operations {
            let late = Duration::from_nanos(*pick(&mut rng, &[0, 100_000, 100_000_000]));
            let at = *pick(&mut rng, &bunches) + late;
            agenda.push(at.min(options.safety), Plan::Issue(options.mix.kind(&mut rng)));
        }
        let mut this = Self {
            rng,
            options: options.clone(),
            agenda,
            next_buffer: 1,
            regions: BTreeMap::new(),
            queries: BTreeMap::new(),
            prompt: false,
            pinned: None,
        };
        for host in world.host_ids() {
            this.begin(world, ledger, host);
        }
        this
    }

    /// Returns the time of the next scheduled action.
    pub fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Runs the next scheduled action.
    pub fn act(&mut self, world: &mut World, ledger: &mut Ledger) {
        let Some((_, plan)) = self.agenda.pop() else { return };
        match plan {
            Plan::Issue(kind) => self.issue(world, ledger, kind),
            Plan::Post { host, incarnation } if world.incarnation(host) == incarnation => {
                if world.is_paused(host) {
                    self.agenda.push(world.now() + Duration::from_secs(1), plan);
                } else {
                    self.post_request_buffer(world, ledger, host);
                }
            }
            Plan::Post { .. } => {}
            Plan::Unlink(key) => self.unlink(world, ledger, key),
        }
    }

    /// Posts the initial MDs of a node that has just started.
    pub fn begin(&mut self, world: &mut World, ledger: &mut Ledger, host: HostId) {
        world.application(host, |service| service.set_lazy(portals::REQUEST, true));
        let fresh = self.buffer();
        // The region is never written, so all incarnations of a node use the same one.
        let buffer = *self.regions.entry(host).or_insert(fresh);
        let md = Md {
            buffer,
            offset: 0,
            len: REGION_LEN.into(),
            threshold: None,
            options: MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE).with(MdOptions::TRUNCATE),
            max_size: 0,
            auto_unlink: false,
            user: 0,
        };
        self.attach(world, ledger, host, portals::REGION, any_sender(), md);
        self.post_later(world, host);
    }

    /// Posts a request buffer after a random time.
    pub(crate) fn post_later(&mut self, world: &World, host: HostId) {
        let longest = if self.prompt { 0 } else { self.options.lateness.as_nanos() as u64 };
        let at = world.now() + Duration::from_nanos(self.rng.below(longest));
        self.agenda.push(at, Plan::Post { host, incarnation: world.incarnation(host) });
    }

    /// Starts no more operations, and posts buffers at once from now on.
    pub fn stop_operations(&mut self) {
        self.prompt = true;
        self.agenda.retain(|plan| !matches!(plan, Plan::Issue(_)));
    }

    /// Returns the number of pings and discoveries in progress.
    pub(crate) fn queries_pending(&self) -> usize {
        self.queries.values().filter(|answer| answer.is_none()).count()
    }

    /// Returns the result of a ping or a discovery.
    pub fn answer(&self, host: HostId, query: QueryId) -> Option<&Answer> {
        self.queries.get(&(host, query))?.as_ref()
    }

    /// Unlinks all remaining MDs.
    pub fn clear(&mut self, world: &mut World, ledger: &mut Ledger) {
        let left = ledger.mds.iter().filter(|(_, record)| !record.unlinked);
        for key in left.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.unlink(world, ledger, key);
        }
    }

    fn unlink(&mut self, world: &mut World, ledger: &mut Ledger, key: MdKey) {
        if world.incarnation(key.host) != key.incarnation {
            return;
        }
        if let Some(record) = ledger.mds.get_mut(&key) {
            record.unlink_asked = true;
        }
        let result = world.application(key.host, |service| service.md_unlink(key.md));
        world.note(
            key.host,
            &format!("md{}", key.md.0),
            format_args!("unlink: {}", words::done(result.as_ref())),
        );
    }

    fn post_request_buffer(&mut self, world: &mut World, ledger: &mut Ledger, host: HostId) {
        let md = Md {
            buffer: self.buffer(),
            offset: 0,
            len: REQUEST_BUFFER,
            threshold: None,
            options: MdOptions::OP_PUT.with(MdOptions::MAX_SIZE),
            max_size: REQUEST_MAX,
            auto_unlink: true,
            user: REQUEST_USER,
        };
        self.attach(world, ledger, host, portals::REQUEST, any_sender(), md);
    }

    /// Attaches an MD, unless the node is down.
    pub(crate) fn attach(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        host: HostId,
        portal: u32,
        me: Me,
        md: Md,
    ) -> Option<MdId> {
        let incarnation = world.incarnation(host);
        let attached = world.application(host, |service| {
            let me = service.me_attach(portal, me).expect("our match entries are valid");
            service.md_attach(me, md, Memory::Buffer).expect("our MDs are valid")
        })?;
        ledger.declare_md(MdKey { host, incarnation, md: attached }, md, None);
        world.note(host, &format!("md{}", attached.0), format_args!("attach at {portal}"));
        Some(attached)
    }

    /// Returns a new buffer.
    pub(crate) fn buffer(&mut self) -> BufferId {
        self.next_buffer += 1;
        BufferId(self.next_buffer)
    }
}

/// The user value of request buffers in events.
pub(crate) const REQUEST_USER: u64 = 1 << 63;

/// Returns a match entry for all messages.
pub(crate) fn any_sender() -> Me {
    Me {
        match_id: ProcessId::ANY,
        match_bits: 0,
        ignore_bits: u64::MAX,
        unlink: true,
        position: MePosition::After,
    }
}

/// Returns a match entry for one message of one node.
pub(crate) fn one_sender(nid: Nid, match_bits: u64) -> Me {
    Me {
        match_id: ProcessId { nid, pid: Pid::LUSTRE },
        match_bits,
        ignore_bits: 0,
        unlink: true,
        position: MePosition::After,
    }
}

/// The result of a ping or a discovery.
pub type Answer = Result<PingReply, Errno>;

/// Gives the workload a random stream of its own.
const WORKLOAD_STREAM: u64 = 0x776f_726b_6c6f_6164;
