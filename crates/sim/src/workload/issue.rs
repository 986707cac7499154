//! Starts operations.

use std::time::Duration;

use fulmar_base::{BufferId, Span};
use fulmar_lnet::{Get, Md, MdId, MdOptions, Memory, Put};
use fulmar_lnet_wire::{MTU, Nid, ProcessId};

use super::{Plan, REGION_LEN, REQUEST_MAX, Workload, one_sender, portals};
use crate::HostId;
use crate::check::ledger::{Action, Expect, Ledger, MdKey, Observation, Operation};
use crate::options::{Kind, pick};
use crate::words;
use crate::world::World;

/// The target of an operation.
struct Target {
    host: HostId,
    portal: u32,
    match_bits: u64,
    /// The buffer and offset from which a GET reads.
    remote: Option<(BufferId, u64)>,
    offset: u32,
    expect: Expect,
    answer: bool,
}

impl Workload {
    /// Starts an operation of a kind, between two drawn nodes.
    pub(super) fn issue(&mut self, world: &mut World, ledger: &mut Ledger, kind: Kind) {
        let (from, to) = self.pair(world);
        if world.node(from).is_none() {
            return;
        }
        if let Some(to) = self.some_hostile() {
            return match kind {
                Kind::Get | Kind::Region => self.get(world, ledger, from, to),
                _ => self.put(world, ledger, from, to),
            };
        }
        match kind {
            Kind::Put => self.put(world, ledger, from, to),
            Kind::Get => self.get(world, ledger, from, to),
            Kind::Request => self.request(world, ledger, from, to),
            Kind::Unwanted => self.unwanted(world, ledger, from, to),
            Kind::Region => self.region(world, ledger, from, to),
            Kind::Loopback => self.loopback(world, ledger, from),
            Kind::Mutual => {
                self.put(world, ledger, from, to);
                if world.node(to).is_some() {
                    self.put(world, ledger, to, from);
                }
            }
            Kind::Cancelled => self.cancelled(world, ledger, from, to),
            Kind::Ping | Kind::Discover => self.query(world, from, to, kind),
        }
    }

    /// Starts a PUT of `len` bytes, or of a drawn length, with a matching MD at its target. Returns
    /// the number of the operation, unless the node is down.
    pub(crate) fn plain_put(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        (from, to): (HostId, HostId),
        len: Option<u32>,
    ) -> Option<usize> {
        let len = len.unwrap_or_else(|| self.size());
        let target = self.posted(world, ledger, from, to, MdOptions::OP_PUT, len, len.into());
        self.begin_put(world, ledger, from, target, len, true)
    }

    /// Like [`Workload::plain_put`], to a NID, and from a NID if one is given.
    pub(crate) fn pinned_put(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        (from, to): (HostId, HostId),
        len: u32,
        nids: (Option<Nid>, Nid),
    ) -> Option<usize> {
        self.pinned = Some(nids);
        let started = self.plain_put(world, ledger, (from, to), Some(len));
        self.pinned = None;
        started
    }

    fn put(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let len = self.size();
        let (ack, disabled) = (self.rng.one_in(2), self.rng.one_in(8));
        let mut options = MdOptions::OP_PUT;
        if disabled {
            options = options.with(MdOptions::ACK_DISABLE);
        }
        let (options, room) = self.room(options, len);
        let mut target = self.posted(world, ledger, from, to, options, len, room);
        target.answer &= ack && !disabled;
        self.begin_put(world, ledger, from, target, len, ack);
    }

    fn get(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let len = self.size();
        let (options, room) = self.room(MdOptions::OP_GET, len);
        let target = self.posted(world, ledger, from, to, options, len, room);
        self.begin_get(world, ledger, from, target, len);
    }

    /// Starts a PUT of at most 16 KiB to the request portal of another node.
    pub fn request(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let (len, ack) = (self.size().min(REQUEST_MAX), self.rng.one_in(2));
        let target = self.target(ledger, to, portals::REQUEST, Expect::Moved(len), ack);
        self.begin_put(world, ledger, from, target, len, ack);
    }

    fn unwanted(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let (len, ack) = (self.size(), self.rng.one_in(4));
        let target = self.target(ledger, to, portals::NOTHING, Expect::Dropped, false);
        self.begin_put(world, ledger, from, target, len, ack);
    }

    fn region(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let len = self.size();
        let offset = self.rng.between(0, u64::from(REGION_LEN) + 1000) as u32;
        let expect = Expect::Moved(len.min(REGION_LEN.saturating_sub(offset)));
        let mut target = self.target(ledger, to, portals::REGION, expect, true);
        target.offset = offset;
        target.remote = self.regions.get(&to).map(|region| (*region, offset.into()));
        self.begin_get(world, ledger, from, target, len);
    }

    fn loopback(&mut self, world: &mut World, ledger: &mut Ledger, host: HostId) {
        if self.rng.one_in(2) {
            self.put(world, ledger, host, host);
        } else {
            self.get(world, ledger, host, host);
        }
    }

    fn cancelled(&mut self, world: &mut World, ledger: &mut Ledger, from: HostId, to: HostId) {
        let before = ledger.operations.len();
        if self.rng.one_in(2) {
            self.put(world, ledger, from, to);
        } else {
            self.get(world, ledger, from, to);
        }
        let Some(operation) = ledger.operations.get_mut(before) else { return };
        operation.expect = Expect::Anything;
        let longest = *pick(&mut self.rng, &[1, 1_000_000, 200_000_000]);
        let after = self.rng.below(longest);
        self.agenda.push(world.now() + Duration::from_nanos(after), Plan::Unlink(operation.md));
    }

    fn query(&mut self, world: &mut World, from: HostId, to: HostId, kind: Kind) {
        let target = self.address(world, from, to);
        let timeout = Duration::from_secs(60);
        let force = self.rng.one_in(2);
        let query = world.admin(from, |admin| match kind {
            Kind::Ping => admin.ping(target, None, timeout),
            _ => admin.discover(target.nid, force),
        });
        if let Some(query) = query {
            self.queries.insert((from, query), None);
        }
    }

    /// Draws two nodes.
    fn pair(&mut self, world: &World) -> (HostId, HostId) {
        let hosts = world.host_ids().count() as u64;
        let from = self.rng.below(hosts);
        let mut to = self.rng.below(hosts - 1);
        to += u64::from(to >= from);
        (HostId(from as u32), HostId(to as u32))
    }

    /// Draws a hostile host, in a part of the operations of runs with such hosts.
    fn some_hostile(&mut self) -> Option<HostId> {
        let all: Vec<HostId> = self.options.hostile_hosts().collect();
        (!all.is_empty() && self.rng.one_in(8)).then(|| *pick(&mut self.rng, &all))
    }

    /// Draws a length; most are edge cases.
    fn size(&mut self) -> u32 {
        let edges = [0, 1, 927, 928, 4096, 16_383, 16_384, 65_536, MTU - 1, MTU];
        match self.rng.below(4) {
            0 => self.rng.between(0, 2_000) as u32,
            _ => *pick(&mut self.rng, &edges),
        }
    }

    /// Draws the length of the target's MD for a message of `len` bytes, and whether it truncates.
    fn room(&mut self, options: MdOptions, len: u32) -> (MdOptions, u64) {
        let len = u64::from(len);
        match self.rng.below(8) {
            0 => (options, len + self.rng.below(5_000)),
            1 => (options.with(MdOptions::TRUNCATE), self.rng.between(0, len)),
            2 if len > 0 => (options, len - 1),
            _ => (options, len),
        }
    }

    /// Posts an MD for one operation, if the target is up.
    #[allow(clippy::too_many_arguments)]
    fn posted(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        from: HostId,
        to: HostId,
        options: MdOptions,
        len: u32,
        room: u64,
    ) -> Target {
        let md = Md {
            buffer: self.buffer(),
            offset: self.rng.below(10_000),
            len: room,
            threshold: Some(1),
            options,
            max_size: 0,
            auto_unlink: true,
            user: 0,
        };
        let fits = u64::from(len) <= room || options.has(MdOptions::TRUNCATE);
        let expect = if fits { Expect::Moved(len.min(room as u32)) } else { Expect::Dropped };
        // Without discovery, each NID of a node is a separate peer.
        let separate = !self.options.discovery && world.nids(from).len() > 1;
        let wildcard = from == to || self.rng.one_in(2) || separate;
        let portal = if wildcard { portals::WILDCARD } else { portals::UNIQUE };
        let mut target = self.target(ledger, to, portal, expect, fits);
        let mut me = one_sender(world.nid(from), target.match_bits);
        if wildcard {
            me.match_id = ProcessId::ANY;
        }
        if self.attach(world, ledger, to, portal, me, md).is_none() {
            (target.expect, target.answer) = (Expect::Anything, false);
        }
        target.remote = options.has(MdOptions::OP_GET).then_some((md.buffer, md.offset));
        target
    }

    fn target(
        &mut self,
        ledger: &Ledger,
        host: HostId,
        portal: u32,
        expect: Expect,
        answer: bool,
    ) -> Target {
        // Unique in the run, and spread over all bits except the one of pings.
        let match_bits = (self.rng.u64() >> 1 & !0xffff) | ledger.operations.len() as u64;
        Target { host, portal, match_bits, remote: None, offset: 0, expect, answer }
    }

    fn begin_put(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        from: HostId,
        target: Target,
        len: u32,
        ack: bool,
    ) -> Option<usize> {
        let header_data = self.rng.u64();
        let action = Action::Put { ack };
        let number = self.declare(world, ledger, from, &target, len, action, header_data)?;
        let (md, to) = self.addressed(world, ledger, number, target.host);
        let source = ledger.operations[number].pair.and_then(|(source, _)| source);
        let Target { portal, match_bits, offset, .. } = target;
        let put = Put { ack, source, target: to, portal, match_bits, offset, header_data };
        let result = world.application(from, |service| service.put(md, put));
        assert_eq!(result, Some(Ok(())), "a new MD accepts an operation");
        Some(number)
    }

    fn begin_get(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        from: HostId,
        target: Target,
        len: u32,
    ) -> Option<usize> {
        let header_data = self.rng.u64();
        let number = self.declare(world, ledger, from, &target, len, Action::Get, header_data)?;
        let (md, to) = self.addressed(world, ledger, number, target.host);
        let source = ledger.operations[number].pair.and_then(|(source, _)| source);
        let Target { portal, match_bits, offset, .. } = target;
        let get = Get { source, target: to, portal, match_bits, offset };
        let result = world.application(from, |service| service.get(md, get));
        assert_eq!(result, Some(Ok(())), "a new MD accepts an operation");
        Some(number)
    }

    /// Draws the NIDs of an operation, and returns its MD and its target.
    fn addressed(
        &mut self,
        world: &World,
        ledger: &mut Ledger,
        number: usize,
        to: HostId,
    ) -> (MdId, ProcessId) {
        let MdKey { host, md, .. } = ledger.operations[number].md;
        let pair = self.pinned.unwrap_or_else(|| {
            let target = self.address(world, host, to).nid;
            (self.source(world, host, target), target)
        });
        ledger.operations[number].pair = Some(pair);
        (md, ProcessId::lustre(pair.1))
    }

    /// Draws one of the NIDs at which a node can be reached.
    fn address(&mut self, world: &World, from: HostId, to: HostId) -> ProcessId {
        let nids = if from == to { vec![Nid::LOOPBACK] } else { world.reachable(from, to) };
        let nid = if let [nid] = nids[..] { nid } else { *pick(&mut self.rng, &nids) };
        ProcessId::lustre(nid)
    }

    /// Draws the source NID of a message; `None` for any.
    fn source(&mut self, world: &World, from: HostId, to: Nid) -> Option<Nid> {
        let nids = world.nids(from);
        if nids.len() < 2 || to.is_loopback() || !self.rng.one_in(8) {
            return None;
        }
        let own: Vec<Nid> = nids.into_iter().filter(|nid| nid.net() == to.net()).collect();
        (!own.is_empty()).then(|| *pick(&mut self.rng, &own))
    }

    /// Binds the initiator's MD and records the operation.
    #[allow(clippy::too_many_arguments)]
    fn declare(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        from: HostId,
        target: &Target,
        len: u32,
        action: Action,
        header_data: u64,
    ) -> Option<usize> {
        let number = ledger.operations.len();
        let md = Md {
            buffer: self.buffer(),
            offset: self.rng.below(10_000),
            len: len.into(),
            threshold: Some(if action == (Action::Put { ack: false }) { 1 } else { 2 }),
            options: MdOptions::default(),
            max_size: 0,
            auto_unlink: true,
            user: number as u64,
        };
        let bound = world.application(from, |service| service.md_bind(md, Memory::Buffer))?;
        let id = bound.expect("our MDs are valid");
        let key = MdKey { host: from, incarnation: world.incarnation(from), md: id };
        ledger.declare_md(key, md, Some(number));
        let Target { host, portal, match_bits, remote, expect, answer, .. } = *target;
        world.note(
            from,
            &format!("op{number}"),
            format_args!(
                "{} {len} to {host} portal {portal} md{} {}",
                words::action(action),
                id.0,
                words::expected(expect)
            ),
        );
        let local = Span { buffer: md.buffer, offset: md.offset, len };
        let loopback = from == host;
        Some(ledger.declare(Operation {
            action,
            md: key,
            target: host,
            honest: !world.is_hostile(host),
            started: world.now(),
            loopback,
            portal,
            match_bits,
            header_data,
            local,
            remote,
            expect,
            answer,
            pair: None,
            seen: Observation::default(),
        }))
    }
}
