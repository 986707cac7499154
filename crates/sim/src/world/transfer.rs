//! Transfers bytes from a socket over the lanes to the other socket, and acknowledgements back.
//!
//! ```text
//! transmit -> kick -> (turn at the interface) -> launch -> hop ... -> arrival
//!    ^                                                                   | Read, Acknowledge
//!    +------------------------------- ack <------------------------------+
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnd::CloseCause;

use super::{HostTask, Port, ScheduledEvent, TcpId, World};
use crate::fabric::Path;
use crate::lane::Front;
use crate::options::Cut;
use crate::signal::Signal;
use crate::tcp::{ACK_DELAY, Ack, EndState, Side};

/// The number of a burst while it, or its acknowledgement, is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BurstId(u32);

/// A burst in flight, and later its acknowledgement.
#[derive(Debug)]
struct Burst {
    tcp: TcpId,
    writer: Side,
    path: Arc<Path>,
    bytes: Range<u64>,
    /// Number of lanes that it has passed.
    passed: usize,
    /// When its last byte reaches the next lane.
    tail: Time,
    /// Lost parts of the burst are its holes.
    ack: Ack,
}

/// All bursts in flight.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    all: Vec<Option<Burst>>,
    free: Vec<u32>,
}

impl Bursts {
    fn insert(&mut self, burst: Burst) -> BurstId {
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = Some(burst);
                BurstId(place)
            }
            None => {
                self.all.push(Some(burst));
                BurstId(self.all.len() as u32 - 1)
            }
        }
    }

    /// Removes a burst that was lost or has arrived.
    fn remove(&mut self, id: BurstId) -> Option<Burst> {
        self.free.push(id.0);
        self.all[id.0 as usize].take()
    }

    fn get(&mut self, id: BurstId) -> Option<&mut Burst> {
        self.all[id.0 as usize].as_mut()
    }

    /// Loses all bursts in flight on a connection.
    pub(super) fn lose(&mut self, tcp: TcpId) {
        for place in &mut self.all {
            if place.as_ref().is_some_and(|burst| burst.tcp == tcp) {
                // The slot stays reserved until the pending event for it.
                *place = None;
            }
        }
    }
}

impl World {
    /// Moves data from the writer's queue to the socket, as far as it has room.
    pub(super) fn transmit(&mut self, tcp: TcpId, side: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = connection.end_mut(side);
        if matches!(end.state, EndState::Open | EndState::Flushing) {
            let host = end.host;
            let (len, messages) = end.stream.take();
            for _ in 0..messages {
                self.signals.push_back(Signal::Taken { host, tcp });
            }
            if end.state == EndState::Open && len > 0 {
                end.unreported += len;
                self.tasks.push_back(HostTask::Sent { tcp, side, len, messages });
            }
            if end.state == EndState::Flushing && !end.stream.has_unsent() {
                return self.hang_up(tcp, side, super::network::Last::Fin);
            }
        }
        self.kick(tcp, side);
    }

    /// Starts sending of a stream, as far as it may.
    pub(super) fn kick(&mut self, tcp: TcpId, side: Side) {
        if let Some(port) = self.queue_up(tcp, side) {
            self.serve(port);
        }
    }

    /// Queues a stream at its interface if it may send. Returns that interface.
    fn queue_up(&mut self, tcp: TcpId, side: Side) -> Option<Port> {
        let now = self.now;
        let end = self.connections[tcp.0].as_mut()?.end_mut(side);
        let stream = &mut end.stream;
        let taken = stream.taken();
        if stream.is_queued {
            return None;
        }
        if !stream.sender.is_ready(taken) {
            stream.sender.watch_window(now, taken);
            self.arm_retransmit_timer(tcp, side);
            return None;
        }
        if let Some(at) = stream.sender.paced_until(now) {
            if !std::mem::replace(&mut stream.is_paced, true) {
                self.queue.push(at, ScheduledEvent::Pace { tcp, writer: side });
            }
            return None;
        }
        stream.is_queued = true;
        let port = end.port;
        self.link_mut(port).ready.push_back((tcp, side));
        Some(port)
    }

    /// Lets queued streams send in turn, while the interface is idle.
    fn serve(&mut self, port: Port) {
        let Some(lane) = self.fabric.lane_of(port) else { return };
        loop {
            let (free, now) = (self.fabric.lane(lane).free(), self.now);
            let link = self.link_mut(port);
            if link.ready.is_empty() {
                return;
            }
            if free > now {
                if !std::mem::replace(&mut link.is_serving, true) {
                    self.queue.push(free, ScheduledEvent::Free(port));
                }
                return;
            }
            let Some((tcp, side)) = link.ready.pop_front() else { return };
            self.launch(tcp, side);
            self.queue_up(tcp, side);
        }
    }

    pub(super) fn free(&mut self, port: Port) {
        self.link_mut(port).is_serving = false;
        self.serve(port);
    }

    pub(super) fn pace(&mut self, tcp: TcpId, writer: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.end_mut(writer).stream.is_paced = false;
        self.kick(tcp, writer);
    }

    /// Sends the next burst of a stream.
    fn launch(&mut self, tcp: TcpId, side: Side) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(side).stream;
        stream.is_queued = false;
        let limit = match self.options.network.cut {
            Cut::Whole => u64::MAX,
            Cut::Pieces(max) if stream.next_is_bulk() => self.rng.between(1, max * 1000),
            Cut::Pieces(max) => self.rng.between(1, max),
        };
        let before = stream.sender.next();
        let Some((number, bytes)) = stream.sender.burst(now, stream.taken(), limit) else { return };
        stream.transmitted(stream.sender.next() - before);
        // Data carry the acknowledgements of the other direction.
        self.flush_acks(tcp, side.other());
        self.send_off(tcp, side, number, bytes);
        self.arm_retransmit_timer(tcp, side);
    }

    fn send_off(&mut self, tcp: TcpId, writer: Side, number: u64, bytes: Range<u64>) {
        let Some(connection) = &self.connections[tcp.0] else { return };
        let Some(path) = connection.end(writer).stream.path.clone() else { return };
        let ack = Ack { number, ..Ack::default() };
        let burst = Burst { tcp, writer, path, bytes, passed: 0, tail: self.now, ack };
        let id = self.bursts.insert(burst);
        self.pass(id, Front::at(self.now));
    }

    /// Handles the arrival of a burst's head at its next lane.
    pub(super) fn hop(&mut self, id: BurstId) {
        let now = self.now;
        match self.bursts.get(id) {
            Some(burst) => {
                let tail = burst.tail;
                self.pass(id, Front { head: now, tail });
            }
            None => drop(self.bursts.remove(id)),
        }
    }

    /// Sends a burst over its next lane.
    fn pass(&mut self, id: BurstId, front: Front) {
        let Some(burst) = self.bursts.get(id) else { return };
        let lane = self.fabric.lane_mut(burst.path.forward[burst.passed]);
        let tcp = &self.options.network.tcp;
        // A host's own interface never drops packets.
        let room = if burst.passed == 0 { u64::MAX } else { lane.room(front) };
        let found_room = burst.cut_to(room, tcp, &mut lane.carried.overflowed);
        let packets = tcp.packets(burst.left());
        let lost = if found_room { lane.lose(packets, &mut self.rng) } else { Vec::new() };
        let mut out = if found_room { lane.carry(front, tcp.on_wire(burst.left())) } else { front };
        let survives = found_room && burst.lose(&lost, packets, tcp.segment());
        if burst.passed == 0 {
            let late = match burst.path.jitter.as_nanos() as u64 {
                0 => 0,
                most => self.rng.between(0, most),
            };
            let Some(connection) = &mut self.connections[burst.tcp.0] else {
                self.bursts.remove(id);
                return;
            };
            let last = &mut connection.end_mut(burst.writer).stream.last_tail;
            let head = (out.head + Duration::from_nanos(late)).max(*last);
            out = out.later(head.since(out.head));
            *last = out.tail;
        }
        if !survives {
            self.bursts.remove(id);
            return;
        }
        burst.passed += 1;
        burst.tail = out.tail;
        burst.ack.spread = out.tail.since(out.head);
        if burst.passed < burst.path.forward.len() {
            self.queue.push(out.head, ScheduledEvent::Hop(id))
        } else {
            self.queue.push(out.tail, ScheduledEvent::Arrival(id))
        }
    }

    /// Handles the arrival of a burst's tail at its reader.
    pub(super) fn arrival(&mut self, id: BurstId) {
        let Some(burst) = self.bursts.get(id) else { return drop(self.bursts.remove(id)) };
        let (tcp, writer) = (burst.tcp, burst.writer);
        let (bytes, holes) = (burst.bytes.clone(), burst.ack.holes.clone());
        let reader = writer.other();
        let cut = self.is_cut(tcp);
        let Some(connection) = self.connections[tcp.0].as_mut().filter(|_| !cut) else {
            return drop(self.bursts.remove(id));
        };
        let (state, host) = (connection.end(reader).state, connection.end(reader).host);
        let stream = connection.incoming(reader);
        if state == EndState::Closed {
            self.bursts.remove(id);
            // A host that is down does not answer. The end of a stream needs no answer.
            let over = connection.end(writer).state == EndState::Closed;
            if self.is_up(host) && !over {
                self.reset_towards(tcp, writer);
            }
            return;
        }
        let mut new = 0;
        for part in parts(bytes, &holes) {
            new += stream.receiver.handle_bytes(part);
        }
        let delivered = stream.deliver(new);
        if let Some(capture) = &mut self.capture {
            for segment in &delivered {
                capture.segment(self.now, tcp, writer, segment);
            }
        }
        if state == EndState::Flushing {
            stream.receiver.handle_read(self.now, new, Duration::ZERO);
        } else {
            stream.inbox.extend(delivered);
        }
        stream.acks_due += 1;
        if new > 0 {
            self.tasks.push_back(HostTask::Read { tcp, side: reader, rested: false });
        }
        self.tasks.push_back(HostTask::Acknowledge(id));
    }

    /// Acknowledges a burst, now or later.
    pub(super) fn acknowledge(&mut self, id: BurstId) {
        let Some(burst) = self.bursts.get(id) else { return drop(self.bursts.remove(id)) };
        let Some(connection) = &mut self.connections[burst.tcp.0] else {
            return drop(self.bursts.remove(id));
        };
        let (tcp, writer, len) = (burst.tcp, burst.writer, burst.bytes.end - burst.bytes.start);
        let stream = &mut connection.end_mut(writer).stream;
        stream.acks_due -= 1;
        let gap = !burst.ack.holes.is_empty() || len == 0 || stream.receiver.has_gap();
        let due = stream.ack_delay.is_due(len, gap);
        stream.delayed.push(id);
        if due {
            return self.flush_acks(tcp, writer);
        }
        if stream.delayed_until.is_none() {
            let at = self.now + ACK_DELAY;
            stream.delayed_until = Some(at);
            self.queue.push(at, ScheduledEvent::LateAck { tcp, writer });
        }
    }

    pub(super) fn late_ack(&mut self, tcp: TcpId, writer: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let until = &mut connection.end_mut(writer).stream.delayed_until;
        if until.is_some_and(|until| until <= self.now) {
            self.flush_acks(tcp, writer);
        }
    }

    /// Sends the delayed acknowledgements of a stream.
    fn flush_acks(&mut self, tcp: TcpId, writer: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(writer).stream;
        stream.ack_delay.acknowledged();
        stream.delayed_until = None;
        for id in std::mem::take(&mut stream.delayed) {
            self.send_ack(id);
        }
    }

    /// Sends the acknowledgement of a burst.
    fn send_ack(&mut self, id: BurstId) {
        let Some(burst) = self.bursts.get(id) else { return drop(self.bursts.remove(id)) };
        let Some(connection) = &mut self.connections[burst.tcp.0] else {
            return drop(self.bursts.remove(id));
        };
        let stream = &mut connection.end_mut(burst.writer).stream;
        burst.ack.upto = stream.receiver.next();
        burst.ack.edge = stream.receiver.advertise_edge();
        let (tcp, writer) = (burst.tcp, burst.writer);
        let at = self.ack_time(tcp, writer);
        self.queue.push(at, ScheduledEvent::Ack(id));
    }

    /// Returns when an acknowledgement that the reader sends now reaches the writer, in order.
    pub(super) fn ack_time(&mut self, tcp: TcpId, writer: Side) -> Time {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return now };
        let stream = &mut connection.end_mut(writer).stream;
        let Some(path) = &stream.path else { return now };
        let at = now + self.fabric.time_over(&path.backward, now);
        stream.last_ack = stream.last_ack.max(at);
        stream.last_ack
    }

    /// Handles the arrival of an acknowledgement at the writer.
    pub(super) fn ack(&mut self, id: BurstId) {
        let Some(Burst { tcp, writer, ack, .. }) = self.bursts.remove(id) else { return };
        if self.is_cut(tcp) {
            return;
        }
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(writer).stream;
        stream.sender.handle_ack(now, &ack, stream.taken());
        stream.stall_reported = false;
        self.transmit(tcp, writer);
        self.arm_retransmit_timer(tcp, writer);
    }

    pub(super) fn window(&mut self, tcp: TcpId, writer: Side, upto: u64, edge: u64) {
        if self.is_cut(tcp) {
            return;
        }
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(writer).stream;
        stream.sender.handle_room(now, upto, edge);
        self.transmit(tcp, writer);
    }

    /// Arms the retransmission timer of a stream.
    fn arm_retransmit_timer(&mut self, tcp: TcpId, writer: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(writer).stream;
        let Some(at) = stream.sender.timeout() else { return };
        if stream.armed.is_none_or(|armed| at < armed) {
            stream.armed = Some(at);
            self.queue.push(at, ScheduledEvent::RetransmitTimer { tcp, writer, at });
        }
    }

    pub(super) fn retransmit_timer(&mut self, tcp: TcpId, writer: Side, at: Time) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = connection.end_mut(writer);
        let stream = &mut end.stream;
        if stream.armed != Some(at) {
            return;
        }
        stream.armed = None;
        if stream.sender.timeout().is_none_or(|due| due > now) {
            return self.arm_retransmit_timer(tcp, writer);
        }
        let probe = stream.sender.handle_timeout(now, stream.taken());
        let waited = stream.sender.time_without_ack(now).unwrap_or_default();
        if waited >= USER_TIMEOUT {
            stream.abort();
            let how = CloseCause::WriteError(Errno::ETIMEDOUT);
            self.tasks.push_back(HostTask::Closed { tcp, side: writer, how });
            return;
        }
        let is_silent = waited >= STALL_TIME_MIN && stream.sender.timeouts() >= TIMEOUTS_MIN;
        if is_silent && !std::mem::replace(&mut stream.stall_reported, true) {
            self.tasks.push_back(HostTask::Stalled { tcp, side: writer });
        }
        if let Some((number, bytes)) = probe {
            self.send_off(tcp, writer, number, bytes);
        }
        self.kick(tcp, writer);
        self.arm_retransmit_timer(tcp, writer);
    }

    /// Notifies the node that TCP retransmits without an answer.
    pub(super) fn stalled(&mut self, tcp: TcpId, side: Side) {
        let now = self.now;
        let Some(connection) = &self.connections[tcp.0] else { return };
        let end = connection.end(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        self.log.line(now, host, tcp, format_args!("stalled"));
        let shown = self.shown(host);
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_stalled(shown, id);
        }
        self.drain(host);
    }
}

impl Burst {
    /// Returns the number of bytes that are not lost.
    fn left(&self) -> u64 {
        let holes: u64 = self.ack.holes.iter().map(|hole| hole.end - hole.start).sum();
        self.bytes.end - self.bytes.start - holes
    }

    /// Drops the end of it that does not fit. Returns whether anything is left.
    fn cut_to(&mut self, room: u64, tcp: &crate::options::Tcp, lost: &mut u64) -> bool {
        let (left, packets) = (self.left(), tcp.packets(self.left()));
        if tcp.on_wire(left) <= room {
            return true;
        }
        let fit = (room / tcp.on_wire(tcp.segment())).min(packets - 1);
        *lost += packets - fit;
        self.lose_packets(fit..packets, tcp.segment());
        self.left() > 0
    }

    /// Drops some of its packets. Returns whether anything is left.
    fn lose(&mut self, lost: &[u64], packets: u64, segment: u64) -> bool {
        for packet in lost.iter().rev() {
            self.lose_packets(*packet..packet + 1, segment);
        }
        (lost.len() as u64) < packets
    }

    /// Drops packets by their numbers among the remaining ones.
    fn lose_packets(&mut self, packets: Range<u64>, segment: u64) {
        let (mut from, to) = (packets.start * segment, packets.end * segment);
        let mut holes = Vec::new();
        let mut passed = 0;
        for part in parts(self.bytes.clone(), &self.ack.holes) {
            let len = part.end - part.start;
            let hole = from.max(passed)..to.min(passed + len);
            if !hole.is_empty() {
                holes.push(part.start + hole.start - passed..part.start + hole.end - passed);
                from = hole.end;
            }
            passed += len;
        }
        self.ack.holes.extend(holes);
        self.ack.holes.sort_by_key(|hole| hole.start);
    }
}

/// Returns the parts of a range between its holes, which are in order.
fn parts(bytes: Range<u64>, holes: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    let starts = std::iter::once(bytes.start).chain(holes.iter().map(|hole| hole.end));
    let ends = holes.iter().map(|hole| hole.start).chain(std::iter::once(bytes.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|part| !part.is_empty())
}

/// The TCP user timeout that the driver sets.
const USER_TIMEOUT: Duration = Duration::from_secs(200);
/// After so many unanswered transmissions, and so long without an answer, the driver notifies its
/// node.
const TIMEOUTS_MIN: u32 = 3;
const STALL_TIME_MIN: Duration = Duration::from_secs(2);
