//! Tests on a client: instances, and their units, which run one RPC after the other.
//! Spec: lnet-selftest §9.3.
//!
//! ```text
//!         +----------------------------- again ----------------------------+
//!         v                                                                |
//! idle -> Calling ---- data to be checked ----> Checking ---- checked ---->+-> idle
//!            +------------------------ over, failed ---------------------->+
//! ```
//!
//! A unit that continues after a failure pauses first: RPCs may fail at once and without end. One
//! whose destination has its share of the budget for RPCs waits before it calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{BatchId, Damage, Direction, Test};

use crate::Selftest;
use crate::brw::{self, Transfers};
use crate::machine::Question;
use crate::memory::{self, Loan};
use crate::notice::Notice;
use crate::ping;
use crate::rpc::{CallId, RpcResult};
use crate::serve::count;
use crate::session::{Session, SessionNumber};
use crate::shares::{Limits, Shares};

/// The largest number of units of all tests on a node: limits their memory, whatever consoles
/// install.
pub(crate) const UNITS_MAX: usize = 1 << 20;
/// What an RPC of a unit costs in addition to its own bulk memory: more than LNet and this machine
/// keep for it.
const CALL: u32 = 4 << 10;
/// What the RPCs of units may cost, in bytes. The number of units limits how many wait.
const CALLS: Limits = Limits {
    whole: 1 << 30,
    peer: 512 << 20,
    crowded: 16 << 20,
    waiting: usize::MAX,
    waiting_peer: usize::MAX,
    waiting_crowded: usize::MAX,
};
/// Pause of a unit after a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// Bits of a [`UnitId`] that identify the unit within its instance.
const UNIT_BITS: u32 = UNITS_MAX.ilog2();

/// A test that is installed on this node as a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceId(u64);

/// A unit of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitId {
    pub(crate) instance: InstanceId,
    pub(crate) index: usize,
}

impl UnitId {
    /// Returns the number for [`Caller::Unit`](crate::rpc::Caller::Unit).
    pub(crate) const fn number(self) -> u64 {
        self.instance.0 << UNIT_BITS | self.index as u64
    }

    /// Returns the unit with this number.
    pub(crate) const fn of_number(number: u64) -> Self {
        let index = number as usize & (UNITS_MAX - 1);
        Self { instance: InstanceId(number >> UNIT_BITS), index }
    }
}

/// The requests of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Ping,
    Brw(Transfers),
}

/// A test as installed.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) session: SessionNumber,
    pub(crate) batch: BatchId,
    pub(crate) features: u32,
    pub(crate) load: Load,
    /// RPCs of each unit; negative for no limit.
    pub(crate) loops: i32,
    /// Units for each destination.
    pub(crate) concurrency: usize,
    pub(crate) stop_on_error: bool,
    pub(crate) destinations: Vec<ProcessId>,
    /// What an RPC costs.
    cost: u32,
    /// `None` while it does not run.
    pub(crate) units: Vec<Unit>,
    /// How many units are not done.
    pub(crate) active: u32,
    /// RPCs that were answered, and whose data were right.
    answered: u64,
    stopping: bool,
}

/// Runs one RPC after the other to one destination.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    remaining: i32,
    state: State,
    /// The memory of its transfer.
    pub(crate) loan: Option<Loan>,
    /// Sequence number of its ping.
    pub(crate) sequence: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// For its share of the budget.
    Waiting,
    Calling(CallId),
    /// The duration of the RPC; its data is being checked.
    Checking(Duration),
    Pausing,
}

/// How an RPC of a unit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no reply, or it was too late.
    Rpc(Errno),
    /// The reply has an error status or is wrong.
    Reply(Errno),
    /// The data is wrong.
    Data(Damage),
}

/// The instances of all sessions.
#[derive(Debug)]
pub(crate) struct Instances {
    table: BTreeMap<InstanceId, Instance>,
    next: u64,
    /// The number of their units when they all run.
    units: usize,
    /// The paused units with the end of the pause, the earliest first.
    pausing: VecDeque<(Time, UnitId)>,
    /// The units that call or check, and those that wait for that.
    pub(crate) calls: Shares<UnitId>,
}

impl Default for Instances {
    fn default() -> Self {
        let (table, pausing, calls) = (BTreeMap::new(), VecDeque::new(), Shares::new(CALLS));
        Self { table, next: 0, units: 0, pausing, calls }
    }
}

impl Selftest {
    /// Starts all units of an instance that does not run.
    pub(crate) fn start_instance(&mut self, now: Time, id: InstanceId) {
        let instance = self.instances.get_mut(id);
        assert!(instance.active == 0, "{id:?} runs already");
        let (remaining, count) = (instance.loops, instance.unit_count());
        let unit = Unit { remaining, state: State::Idle, loan: None, sequence: 0 };
        instance.units = vec![unit; count];
        instance.active = count as u32;
        instance.stopping = false;
        for index in 0..count {
            self.next_rpc(now, UnitId { instance: id, index });
        }
    }

    /// Aborts the RPCs of an instance that is stopping.
    pub(crate) fn abort_instance(&mut self, id: InstanceId) {
        for unit in &self.instances.get(id).units {
            if let State::Calling(call) = unit.state {
                self.rpcs.abort(call, Errno::EINTR);
            }
        }
    }

    /// Handles the end of the RPC of a unit.
    pub(crate) fn unit_finished(&mut self, now: Time, id: UnitId, finished: RpcResult) {
        let RpcResult { call, result, took, .. } = finished;
        let instance = self.instances.get_mut(id.instance);
        let unit = &mut instance.units[id.index];
        assert_eq!(unit.state, State::Calling(call), "a unit has one RPC at a time");
        let (judged, order) = match (instance.load, result) {
            (_, Err(errno)) => (Err(Failure::Rpc(errno)), None),
            (Load::Ping, Ok((body, ..))) => (ping::judge(unit.sequence, &body), None),
            (Load::Brw(_), Ok((body, _, order))) => (brw::judge(&body), Some(order)),
        };
        let checked = unit.loan.filter(Loan::is_checked).zip(order);
        if let (Ok(()), Some((loan, order)), Load::Brw(load)) = (judged, checked, instance.load) {
            unit.state = State::Checking(took);
            return self.ask_check(Question::Unit(id), loan.span, load.check, order);
        }
        if let Some(loan) = unit.loan.take() {
            self.memory.give_back(loan);
        }
        self.judged(now, id, judged.map(|()| took));
    }

    /// Handles the result of the check of data that an RPC of a unit read.
    pub(crate) fn unit_checked(&mut self, now: Time, id: UnitId, result: Result<(), Damage>) {
        let unit = &mut self.instances.get_mut(id.instance).units[id.index];
        let State::Checking(took) = unit.state else { unreachable!("{id:?} checks nothing") };
        let loan = unit.loan.take().expect("checked memory is lent");
        self.memory.give_back_checked(loan);
        self.judged(now, id, result.map(|()| took).map_err(Failure::Data));
    }

    /// Continues or ends after a completed or failed RPC.
    fn judged(&mut self, now: Time, id: UnitId, result: Result<Duration, Failure>) {
        let instance = self.instances.get(id.instance);
        let (load, stopping) = (instance.load, instance.stopping);
        let (peer, cost) = (instance.peer(id).nid, instance.cost);
        self.instances.calls.give_back(peer, cost);
        let instance = self.instances.get(id.instance);
        let is_over = stopping
            || instance.units[id.index].remaining == 0
            || (result.is_err() && instance.stop_on_error);
        let session = self.sessions.get_mut(instance.session);
        match result {
            Ok(took) => {
                session.measures.count(took, load.bytes());
                self.instances.get_mut(id.instance).answered += 1;
            }
            // An aborted RPC is not a failure.
            Err(Failure::Rpc(_)) if stopping => {}
            Err(failure) => {
                count(load.errors(session));
                let complaint = load.complaint(instance.peer(id), failure);
                self.notice(complaint);
            }
        }
        match is_over {
            true => self.unit_done(id),
            false if result.is_err() => self.instances.pause(now, id),
            false => self.next_rpc(now, id),
        }
    }

    /// Resumes the units whose pause is over.
    pub(crate) fn resume_units(&mut self, now: Time) {
        while self.instances.next_resume().is_some_and(|at| at <= now) {
            let (_, id) = self.instances.pausing.pop_front().expect("it was just checked");
            if self.instances.get(id.instance).stopping {
                self.unit_done(id)
            } else {
                self.next_rpc(now, id)
            }
        }
    }

    /// Ends the units of instances that are stopping which wait for their share.
    pub(crate) fn dismiss_waiting(&mut self) {
        let Instances { table, calls, .. } = &mut self.instances;
        let stops = |unit: &UnitId| table.get(&unit.instance).is_some_and(|one| one.stopping);
        for unit in calls.withdraw(stops) {
            self.unit_done(unit);
        }
    }

    fn next_rpc(&mut self, now: Time, id: UnitId) {
        let instance = self.instances.get(id.instance);
        let (peer, cost) = (instance.peer(id).nid, instance.cost);
        if self.instances.calls.take(peer, cost) {
            return self.call(now, id);
        }
        self.instances.get_mut(id.instance).units[id.index].state = State::Waiting;
        self.instances.calls.push(peer, cost, id).expect("any number of units may wait");
    }

    /// Starts the RPC of a unit that has its share.
    pub(crate) fn call(&mut self, now: Time, id: UnitId) {
        let load = self.instances.get(id.instance).load;
        let call = match load {
            Load::Ping => self.call_ping(now, id),
            Load::Brw(transfers) => self.call_brw(now, id, transfers),
        };
        let unit = &mut self.instances.get_mut(id.instance).units[id.index];
        unit.remaining -= i32::from(unit.remaining > 0);
        unit.state = State::Calling(call);
    }

    fn unit_done(&mut self, id: UnitId) {
        let instance = self.instances.get_mut(id.instance);
        let unit = &mut instance.units[id.index];
        unit.state = State::Idle;
        assert!(unit.loan.is_none(), "{id:?} ends with memory that it has not returned");
        instance.active -= 1;
        if instance.active == 0 {
            instance.units = Vec::new();
            let (session, batch) = (instance.session, instance.batch);
            self.instance_ended(session, batch);
        }
    }
}

impl Load {
    /// Returns what an RPC costs.
    fn cost(self) -> u32 {
        match self {
            Self::Brw(Transfers { direction: Direction::READ, check, len }) => {
                CALL + memory::sink_cost(len, check)
            }
            Self::Brw(_) | Self::Ping => CALL,
        }
    }

    fn bytes(self) -> u32 {
        match self {
            Self::Ping => 0,
            Self::Brw(transfers) => transfers.len,
        }
    }

    fn errors(self, session: &mut Session) -> &mut u32 {
        match self {
            Self::Ping => &mut session.ping_errors,
            Self::Brw(_) => &mut session.brw_errors,
        }
    }

    fn complaint(self, peer: ProcessId, failure: Failure) -> Notice {
        let service = match self {
            Self::Ping => "PING",
            Self::Brw(_) => "BRW",
        };
        match failure {
            Failure::Rpc(errno) | Failure::Reply(errno) => {
                Notice::RpcFailed { peer, service, errno }
            }
            Failure::Data(Damage { offset, got }) => Notice::Corrupted { peer, offset, got },
        }
    }
}

impl Instance {
    /// Creates an instance that does not run.
    pub(crate) fn new(
        session: SessionNumber,
        features: u32,
        load: Load,
        test: &Test,
        destinations: Vec<ProcessId>,
    ) -> Self {
        Self {
            session,
            batch: test.batch,
            features,
            load,
            loops: test.loops as i32,
            concurrency: test.concurrency as usize,
            stop_on_error: test.stop_on_error,
            destinations,
            cost: load.cost(),
            units: Vec::new(),
            active: 0,
            answered: 0,
            stopping: false,
        }
    }

    /// Returns the destination of a unit.
    pub(crate) fn peer(&self, id: UnitId) -> ProcessId {
        self.destinations[id.index / self.concurrency]
    }

    fn unit_count(&self) -> usize {
        self.destinations.len() * self.concurrency
    }
}

impl Instances {
    /// Returns the RPCs of a batch that were answered.
    pub(crate) fn answered(&self, batch: BatchId) -> u64 {
        self.table.values().filter(|one| one.batch == batch).map(|one| one.answered).sum()
    }

    /// Returns whether the units of an instance fit the limit.
    pub(crate) fn has_room_for(&self, instance: &Instance) -> bool {
        self.units + instance.unit_count() <= UNITS_MAX
    }

    pub(crate) fn add(&mut self, instance: Instance) -> InstanceId {
        assert!(self.has_room_for(&instance), "too many units");
        let id = InstanceId(self.next);
        self.next += 1;
        self.units += instance.unit_count();
        self.table.insert(id, instance);
        id
    }

    pub(crate) fn remove(&mut self, id: InstanceId) {
        let instance = self.table.remove(&id).expect("an instance is removed with its session");
        assert!(instance.active == 0, "{id:?} is removed while it runs");
        self.units -= instance.unit_count();
    }

    /// Requests the end of an instance. Returns whether it runs and was not requested before.
    pub(crate) fn stop(&mut self, id: InstanceId) -> bool {
        let instance = self.get_mut(id);
        let is_news = instance.active > 0 && !instance.stopping;
        instance.stopping |= is_news;
        is_news
    }

    fn pause(&mut self, now: Time, id: UnitId) {
        self.get_mut(id.instance).units[id.index].state = State::Pausing;
        self.pausing.push_back((now + PAUSE, id));
    }

    /// Returns when the next paused unit continues.
    pub(crate) fn next_resume(&self) -> Option<Time> {
        self.pausing.front().map(|(at, _)| *at)
    }

    pub(crate) fn get(&self, id: InstanceId) -> &Instance {
        self.table.get(&id).expect("an instance exists as long as its session")
    }

    pub(crate) fn get_mut(&mut self, id: InstanceId) -> &mut Instance {
        self.table.get_mut(&id).expect("an instance exists as long as its session")
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns how many units have memory.
    pub(crate) fn loans(&self) -> usize {
        let units = self.table.values().flat_map(|instance| &instance.units);
        units.filter(|unit| unit.loan.is_some()).count()
    }

    /// Returns an inconsistency of the tables, if any.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        for (id, instance) in &self.table {
            let busy = instance.units.iter().filter(|unit| unit.state != State::Idle).count();
            if busy != instance.active as usize {
                return Err(format!("{busy} units of {id:?} run, {} are counted", instance.active));
            }
        }
        let states = || self.table.values().flat_map(|one| &one.units).map(|unit| unit.state);
        let calling = |state: &State| matches!(state, State::Calling(_) | State::Checking(_));
        let calling = states().filter(calling).count();
        let waiting = states().filter(|state| *state == State::Waiting).count();
        if (calling, waiting) != (self.calls.count(), self.calls.waiting()) {
            return Err(format!("{calling} units call and {waiting} wait: {:?}", self.calls));
        }
        self.calls.check()?;
        let units: usize = self.table.values().map(Instance::unit_count).sum();
        if units == self.units {
            Ok(())
        } else {
            Err(format!("{units} units are installed, {} are counted", self.units))
        }
    }
}
