//! Transfers whose operations end in any order and in any way.

use std::collections::BTreeSet;

use fulmar_base::{BufferId, Rng};
use fulmar_lnet::MdId;
use proptest::prelude::*;

use super::*;
use crate::bulk::{Bulk, Direction};

/// What LNet has of an operation.
struct Operation {
    user: u64,
    md: Option<MdId>,
    len: u32,
    is_get: bool,
    /// Whether the request was sent, and whether the response has come.
    parts: [bool; 2],
}

struct Random {
    rig: Rig,
    rng: Rng,
    export: Handle,
    held: Vec<Operation>,
    moving: BTreeSet<RequestId>,
    ended: usize,
    begun: usize,
    /// The numbers of all requests.
    xids: Vec<u64>,
}

impl Random {
    fn new(seed: u64) -> Self {
        let mut rig = Rig::new(config());
        let export = rig.connect(node(1), "one");
        let (held, moving, rng) = (Vec::new(), BTreeSet::new(), Rng::new(seed));
        Self { rig, rng, export, held, moving, ended: 0, begun: 0, xids: vec![1 << 20] }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..3 => self.begin(),
            3..5 => self.resend(),
            5 => self.rig.advance(self.rng.below(12)),
            6 if self.rng.one_in(10) => {
                self.rig.server.evict(self.rig.now, self.export, Eviction::Administrator);
                self.rig.drain();
                self.export = self.rig.connect_again();
            }
            _ => self.event(),
        }
        self.settle();
    }

    /// A client sends a request with up to 8 parts, and the host has fewer or more.
    fn begin(&mut self) {
        let xid = (self.xids[self.xids.len() - 1] & !127) + 128 + self.rng.below(8);
        self.xids.push(xid);
        let mut message = modify(self.export);
        message.body.timeout = 1 + self.rng.below(30) as u32;
        self.rig.send_unchecked(node(1), xid, &message);
        self.begun += 1;
    }

    fn resend(&mut self) {
        let mut message = flagged(modify(self.export), MessageFlags::RESENT);
        message.body.timeout = 20;
        let back = self.rng.below(4.min(self.xids.len() as u64)) as usize;
        let xid = self.xids[self.xids.len() - 1 - back];
        self.rig.send_unchecked(node(1), xid, &message);
    }

    /// Does what the server wants.
    fn settle(&mut self) {
        self.rig.drain();
        loop {
            while let Some(op) = self.rig.moves.pop_front() {
                self.post(&op);
            }
            self.rig.drain();
            if self.rig.moves.is_empty() && !self.take_task() {
                break;
            }
        }
        self.rig.sent.clear();
        self.rig.server.check_invariants().unwrap();
    }

    fn post(&mut self, op: &Op) {
        let user = op.user().unwrap();
        let (is_get, len) = match op {
            Op::Get { into: Bound::New(md, _), .. } => (true, md.len as u32),
            Op::Put { from: Bound::New(md, _), .. } => (false, md.len as u32),
            op => panic!("{op:?}"),
        };
        if self.rng.one_in(30) {
            return self.rig.server.handle_posted(self.rig.now, user, Err(Errno::ENOMEM));
        }
        let md = MdId(user & 0xffff_ffff);
        self.held.push(Operation { user, md: Some(md), len, is_get, parts: [false; 2] });
        self.rig.server.handle_posted(self.rig.now, user, Ok(md));
    }

    fn take_task(&mut self) -> bool {
        match self.rig.tasks.pop_front() {
            Some(Task::Execute(request)) => {
                let direction = match self.rng.below(2) {
                    0 => Direction::ToServer,
                    _ => Direction::ToClient,
                };
                let len = self.rng.below(9 << 20);
                let bulk = Bulk::new(direction, portal::MGS_BULK, (BufferId(1), 0, len), 0);
                self.moving.insert(request.id);
                self.rig.server.transfer(self.rig.now, request.id, bulk, 8);
            }
            Some(Task::Transferred { request, .. }) => {
                assert!(self.moving.remove(&request), "it ends once");
                self.ended += 1;
                self.rig.server.discard(self.rig.now, request);
            }
            Some(Task::Evicted { .. }) => {}
            Some(task) => panic!("{task:?}"),
            None => return false,
        }
        true
    }

    /// Something happens to an operation: to one that was unlinked, its end.
    fn event(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let place = self.rng.below(self.held.len() as u64) as usize;
        let is_unlinked = self.held[place].md.is_some_and(|md| self.rig.unlinked.contains(&md));
        let one = &mut self.held[place];
        let response = if one.is_get { EventKind::Reply } else { EventKind::Ack };
        let mut event = Event::unlinked(one.md.unwrap_or(MdId(0)), one.user);
        if is_unlinked && self.rng.below(2) == 0 {
            self.held.swap_remove(place);
        } else {
            let part = self.rng.below(2) as usize;
            if std::mem::replace(&mut one.parts[part], true) {
                return;
            }
            event.kind = [EventKind::Send, response][part];
            event.mlength = one.len;
            if self.rng.one_in(20) {
                event.status = Err(Errno::EHOSTUNREACH);
            } else if self.rng.one_in(30) {
                event.mlength = one.len / 2;
            }
            event.unlinked = one.parts == [true; 2];
            if event.unlinked {
                self.held.swap_remove(place);
            }
        }
        self.rig.server.handle_event(self.rig.now, &event, Vec::new());
    }

    /// Ends all that LNet has.
    fn finish(&mut self) {
        for _ in 0..100_000 {
            if self.moving.is_empty() {
                break;
            }
            self.event();
            self.settle();
            if self.rng.one_in(50) {
                self.rig.advance(5);
                self.settle();
            }
        }
        assert!(self.moving.is_empty() && self.held.is_empty());
        self.rig.server.is_idle().unwrap();
    }
}

impl Rig {
    fn connect_again(&mut self) -> Handle {
        self.tasks.retain(|task| !matches!(task, Task::Evicted { .. }));
        self.sent.clear();
        let others: Vec<Task> = self.tasks.drain(..).collect();
        let export = self.connect(node(1), "one");
        self.tasks.extend(others);
        export
    }
}

proptest! {
    #[test]
    fn every_transfer_ends_once_when_lnet_has_released_its_memory(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        for _ in 0..400 {
            random.step();
        }
        random.finish();
        prop_assert!(random.ended > 0 || random.begun < 10);
    }
}
