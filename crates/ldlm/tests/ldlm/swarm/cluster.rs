//! Clients and targets over LNet, in virtual time, with a plan of what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_lnd::SendRequest;
use fulmar_lnet::Service;
use fulmar_lnet_wire::{Body, Nid};

use super::check::{Ledger, RunCounts};
use super::client::{self, ClientNode};
use super::node::Node;
use super::plan::{Fault, Plan};
use super::target::{self, Target};

/// What the plan does at a time.
#[derive(Clone, Debug)]
enum Action {
    Acquire(usize),
    Commit(usize),
    Restart(usize),
    Open(usize),
    Gone(usize),
    /// The first client cannot communicate, or can again.
    Cut(bool),
    Calm,
}

/// When nothing goes wrong any more, and when all must have ended.
const CALM: Time = Time::from_secs(200);
const END: Time = Time::from_secs(4000);

pub(crate) struct Cluster {
    plan: Plan,
    now: Time,
    rng: Rng,
    clients: Vec<ClientNode>,
    targets: Vec<Target>,
    /// Messages under way, by the time of their arrival, with the NID that they go to.
    wire: BTreeMap<(Time, u64), (Nid, SendRequest, Vec<u8>)>,
    script: BTreeMap<(Time, u64), Action>,
    count: u64,
    is_cut: bool,
    ledger: Ledger,
}

impl Cluster {
    /// Runs a plan.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn run(plan: Plan, fault: Fault) -> Result<RunCounts, String> {
        let mut this = Self::new(plan, fault);
        this.run_until(CALM)?;
        while !this.have_all_ended() {
            if this.now >= END {
                let acquires = this.ledger.acquires();
                return Err(format!(
                    "{acquires} acquires have no end, or a client is not connected"
                ));
            }
            this.run_until(this.now + Duration::from_secs(10))?;
        }
        this.finish()?;
        Ok(this.ledger.seen)
    }

    fn new(plan: Plan, fault: Fault) -> Self {
        let now = Time::from_secs(1);
        let mut rng = Rng::new(plan.seed ^ 0x5eed);
        let mut unlucky = BTreeSet::new();
        unlucky.extend((plan.cut > 0).then_some(0));
        unlucky.extend(plan.has_gone.then_some(plan.clients - 1));
        unlucky.extend((fault == Fault::IgnoresBlocking).then_some(plan.clients - 1));
        let clients = (0..plan.clients)
            .map(|number| ClientNode::new(now, number, &plan, fault, &mut rng))
            .collect();
        let mut this = Self {
            now,
            clients,
            targets: (0..plan.targets).map(|number| Target::new(number, &plan, fault)).collect(),
            wire: BTreeMap::new(),
            script: BTreeMap::new(),
            count: 0,
            is_cut: false,
            ledger: Ledger::new(&plan, unlucky),
            rng: Rng::new(plan.seed),
            plan,
        };
        this.write_script(&mut rng);
        this
    }

    fn write_script(&mut self, rng: &mut Rng) {
        let plan = self.plan.clone();
        let second =
            |rng: &mut Rng, from, to| Time::ZERO + Duration::from_millis(rng.between(from, to));
        for client in 0..plan.clients {
            for _ in 0..plan.acquires {
                self.plan_at(second(rng, 2_000, 100_000), Action::Acquire(client));
            }
        }
        for _ in 0..plan.restarts {
            let target = rng.below(plan.targets as u64) as usize;
            self.plan_at(second(rng, 5_000, 150_000), Action::Restart(target));
        }
        if plan.has_gone {
            self.plan_at(second(rng, 5_000, 100_000), Action::Gone(plan.clients - 1));
        }
        if plan.cut > 0 {
            let at = second(rng, 5_000, 100_000);
            self.plan_at(at, Action::Cut(true));
            self.plan_at(at + Duration::from_secs(plan.cut), Action::Cut(false));
        }
        self.plan_at(CALM, Action::Calm);
        for target in 0..plan.targets {
            self.plan_commit(target);
        }
    }

    fn plan_at(&mut self, at: Time, action: Action) {
        self.count += 1;
        self.script.insert((at, self.count), action);
    }

    fn plan_commit(&mut self, target: usize) {
        let after = Duration::from_nanos(self.rng.below(self.plan.commit.as_nanos() as u64) + 1);
        self.plan_at(self.now + after, Action::Commit(target));
    }

    fn have_all_ended(&self) -> bool {
        let mut alive = self.clients.iter().filter(|client| !client.is_gone);
        let is_pending = |action: &Action| matches!(action, Action::Cut(_) | Action::Open(_));
        alive.all(ClientNode::rests) && !self.script.values().any(is_pending)
    }

    fn run_until(&mut self, until: Time) -> Result<(), String> {
        loop {
            self.settle();
            self.ledger.check_acquires(self.now);
            self.ledger.error.take().map_or(Ok(()), Err)?;
            let alive = self.clients.iter().filter(|client| !client.is_gone);
            let times = [
                self.wire.keys().next().map(|(at, _)| *at),
                self.script.keys().next().map(|(at, _)| *at),
                alive.filter_map(ClientNode::poll_timeout).min(),
                self.targets.iter().filter_map(Target::poll_timeout).min(),
            ];
            match times.into_iter().flatten().min() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => {
                    self.now = until;
                    return Ok(());
                }
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, request, bytes) = entry.remove();
            self.deliver(to, request, bytes);
        }
        if let Some(entry) = self.script.first_entry().filter(|entry| entry.key().0 <= now) {
            let action = entry.remove();
            self.act(action);
        }
        for client in self.clients.iter_mut().filter(|client| !client.is_gone) {
            client.handle_timeout(now, &mut self.ledger);
        }
        for target in &mut self.targets {
            target.handle_timeout(now, &mut self.ledger);
        }
    }

    fn deliver(&mut self, to: Nid, request: SendRequest, bytes: Vec<u8>) {
        let of_target = (0..self.targets.len()).find(|&place| target::nid(place) == to);
        let of_client = (0..self.clients.len()).find(|&place| client::nid(place) == to);
        match (of_target, of_client) {
            (Some(place), _) => {
                let mut clients = 0..self.clients.len();
                let is_put = matches!(request.header.body, Body::Put { .. });
                if let Some(client) = clients.find(|&client| client::nid(client) == request.ni)
                    && is_put
                {
                    self.ledger.heard(self.now, client, place);
                }
                self.targets[place].node.receive_whole(self.now, request, bytes);
            }
            (_, Some(place)) if !self.clients[place].is_gone => {
                self.clients[place].node.receive_whole(self.now, request, bytes);
            }
            _ => {}
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Acquire(place) => {
                let client = &mut self.clients[place];
                if !client.is_gone {
                    client.acquire(self.now, &mut self.rng, &mut self.ledger);
                }
            }
            Action::Commit(target) => {
                self.targets[target].commit();
                self.plan_commit(target);
            }
            Action::Restart(target) => {
                self.targets[target].restart(self.now, &mut self.ledger);
                self.wire.retain(|_, (to, ..)| *to != target::nid(target));
                let down = Duration::from_millis(self.rng.below(10_000));
                self.plan_at(self.now + down, Action::Open(target));
            }
            Action::Open(target) => self.targets[target].open(),
            Action::Gone(client) => {
                self.clients[client].is_gone = true;
                self.ledger.gone(client);
            }
            Action::Cut(is_cut) => self.is_cut = is_cut,
            Action::Calm => (self.plan.loss, self.plan.resets) = (0, 0),
        }
    }

    fn settle(&mut self) {
        let (now, rng, ledger) = (self.now, &mut self.rng, &mut self.ledger);
        let mut sends = Vec::new();
        for client in self.clients.iter_mut().filter(|client| !client.is_gone) {
            client.settle(now, rng, ledger);
            break_connections(now, &mut client.node, self.plan.resets, rng);
            client.settle(now, rng, ledger);
            sends.extend(client.node.write_all(now));
        }
        for target in &mut self.targets {
            target.settle(now, rng, ledger);
            break_connections(now, &mut target.node, self.plan.resets, rng);
            target.settle(now, rng, ledger);
            sends.extend(target.node.write_all(now));
        }
        for (request, bytes) in sends {
            self.count += 1;
            // LNet waits for the pings of discovery as long as for any response: 150 s.
            let is_ping = matches!(request.header.body, Body::Get { .. } | Body::Reply { .. });
            if self.plan.loss > 0 && !is_ping && self.rng.one_in(self.plan.loss) {
                continue;
            }
            let latency = Duration::from_micros(self.rng.between(100, 200_000));
            let to = request.next_hop;
            if self.is_cut && [to, request.ni].contains(&client::nid(0)) {
                continue;
            }
            self.wire.insert((self.now + latency, self.count), (to, request, bytes));
        }
    }

    /// All clients give up their locks and disconnect. Then nothing may be left of them.
    fn finish(&mut self) -> Result<(), String> {
        let alive: Vec<usize> =
            (0..self.clients.len()).filter(|&client| !self.clients[client].is_gone).collect();
        for &client in &alive {
            self.clients[client].give_up(self.now);
        }
        self.run_until(self.now + Duration::from_secs(300))?;
        self.ledger.check_end(|part| self.targets[part.0].version(part));
        for &client in &alive {
            self.clients[client].disconnect(self.now)?;
        }
        self.run_until(self.now + Duration::from_secs(900))?;
        for &client in &alive {
            self.clients[client].is_idle()?;
        }
        self.targets.iter().try_for_each(Target::is_idle)
    }
}

/// Fails to send some messages of a node.
fn break_connections<S: Service>(now: Time, node: &mut Node<S>, resets: u64, rng: &mut Rng) {
    if resets == 0 {
        return;
    }
    let sends = std::mem::take(&mut node.sends);
    let (broken, kept): (Vec<_>, Vec<_>) = sends.into_iter().partition(|_| rng.one_in(resets));
    node.sends = kept;
    for request in &broken {
        node.fail(now, request);
    }
}
