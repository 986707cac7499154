//! Calls, segments and windows on their way between hosts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Span, Time};
use fulmar_socklnd::{Closed, DialError};

use super::{Happening, HostId, Planted, Port, TcpId, Todo, World};
use crate::options::{Canary, Cut, Topology};
use crate::signal::Signal;
use crate::tcp::{Connection, End, EndState, Segment, Side, Stream};

impl World {
    /// Returns how long a segment takes from one host to the other, at least.
    pub(super) fn delay(&self, from: HostId, to: HostId) -> Duration {
        self.host(from).delay + self.host(to).delay
    }

    /// Returns whether nothing passes between the ends of a connection.
    pub(super) fn is_cut(&self, tcp: TcpId) -> bool {
        let Some(connection) = &self.connections[tcp.0] else { return false };
        let [one, other] = Side::BOTH.map(|side| connection.end(side).port);
        let hosts = (one.host.min(other.host), one.host.max(other.host));
        self.partitions.contains(&hosts) || self.link(one).cut || self.link(other).cut
    }

    fn cable(&self) -> &crate::options::Line {
        match &self.options.network.topology {
            Topology::Mesh { cable, .. } => cable,
            Topology::Sites { sites, .. } => &sites[0].ports[0].cable,
        }
    }

    pub(super) fn dial(&mut self, host: HostId, conn: ConnId, local: IpAddr, remote: SocketAddr) {
        let tcp = TcpId(self.connections.len());
        self.log.line(self.now, host, tcp, format_args!("dial {remote}"));
        let Some(own) = Port::of_ip(local).filter(|port| port.host == host && self.has(*port))
        else {
            return self.broken(host, format!("dials {remote} from {local}, which is not its own"));
        };
        let local = SocketAddr::new(local, self.host_mut(host).port());
        let target = Port::of_ip(remote.ip()).filter(|port| self.has(*port));
        let tcp_options = &self.options.network.tcp;
        let window = tcp_options.read_buffer.saturating_add(tcp_options.write_buffer);
        let end = |port: Port, addr, id| End {
            host: port.host,
            port,
            addr,
            id,
            state: EndState::Waiting,
            stream: Stream::new(window),
            unreported: 0,
            read_pending: false,
        };
        self.connections.push(Some(Box::new(Connection {
            dialler: end(own, local, Some(conn)),
            acceptor: end(target.unwrap_or(own), remote, None),
            dialled: self.now,
        })));
        self.host_mut(host).connections.insert(conn, (tcp, Side::Dialler));
        let same_net = |port| self.nid_of(port).net() == self.nid_of(own).net();
        match target {
            _ if self.link(own).down => self.refuse(tcp, self.now, Errno::ENETUNREACH),
            Some(target) if same_net(target) => {
                let at = self.now + self.delay(host, target.host);
                self.queue.push(at, Happening::Syn { tcp });
            }
            _ => self.refuse(tcp, self.now, Errno::EHOSTUNREACH),
        }
    }

    fn refuse(&mut self, tcp: TcpId, at: Time, errno: Errno) {
        self.queue.push(at, Happening::Answer { tcp, result: Err(DialError(errno)) });
    }

    pub(super) fn syn(&mut self, tcp: TcpId) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let (from, called) = (connection.dialler.host, connection.acceptor.port);
        let to = called.host;
        let gives_up = connection.dialled + SYN_TIMEOUT;
        if connection.dialler.state == EndState::Closed {
            self.connections[tcp.0] = None;
        } else if self.is_cut(tcp) {
            self.refuse(tcp, gives_up, Errno::ETIMEDOUT);
        } else if self.host(to).node.is_none() || self.link(called).refuses {
            self.refuse(tcp, self.now + self.delay(from, to), Errno::ECONNREFUSED);
        } else {
            let at = self.now + self.delay(from, to);
            self.queue.push(at, Happening::Answer { tcp, result: Ok(()) });
            self.todo.push_back(Todo::Accept { tcp });
        }
    }

    pub(super) fn answer(&mut self, tcp: TcpId, result: Result<(), DialError>) {
        let Some(connection) = &self.connections[tcp.0] else { return };
        if result.is_ok() && self.is_cut(tcp) {
            let at = (connection.dialled + SYN_TIMEOUT).max(self.now);
            return self.refuse(tcp, at, Errno::ETIMEDOUT);
        }
        self.todo.push_back(Todo::Dialled { tcp, result });
    }

    pub(super) fn accept(&mut self, tcp: TcpId) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = &connection.acceptor;
        if end.state != EndState::Waiting {
            return;
        }
        let (host, local, remote) = (end.host, end.addr, connection.dialler.addr);
        let node = self.hosts[host.0 as usize].node.as_mut();
        match node.and_then(|node| node.handle_accepted(now, local, remote)) {
            Some(id) => {
                connection.acceptor.id = Some(id);
                connection.acceptor.state = EndState::Open;
                self.host_mut(host).connections.insert(id, (tcp, Side::Acceptor));
                self.log.line(now, host, tcp, format_args!("accept {remote}"));
                self.drain(host);
                self.todo.push_back(Todo::Read { tcp, side: Side::Acceptor, rested: false });
            }
            None => {
                self.log.line(now, host, tcp, format_args!("turn away {remote}"));
                self.hang_up(tcp, Side::Acceptor, Segment::Fin);
                self.drain(host);
            }
        }
    }

    pub(super) fn dialled(&mut self, tcp: TcpId, result: Result<(), DialError>) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = &mut connection.dialler;
        let (host, addr) = (end.host, end.addr);
        let Some(id) = end.id.filter(|_| end.state == EndState::Waiting) else { return };
        match result {
            Ok(()) => end.state = EndState::Open,
            Err(_) => {
                end.state = EndState::Closed;
                self.hosts[host.0 as usize].connections.remove(&id);
            }
        }
        self.log.line(now, host, tcp, format_args!("dialled {result:?}"));
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_dialled(now, id, result.map(|()| addr));
        }
        self.drain(host);
        self.todo.push_back(Todo::Read { tcp, side: Side::Dialler, rested: false });
        self.forget_if_over(tcp);
    }

    /// Moves what the socket has room for from the writer's queue onto its way.
    pub(super) fn transmit(&mut self, tcp: TcpId, side: Side) {
        let (mut len, mut messages) = (0, 0);
        loop {
            let Some(connection) = &mut self.connections[tcp.0] else { return };
            let end = connection.end_mut(side);
            if !matches!(end.state, EndState::Open | EndState::Flushing) {
                return;
            }
            let limit = match self.options.network.cut {
                Cut::Whole => u64::MAX,
                Cut::Pieces(max) if end.stream.next_is_bulk() => self.rng.between(1, max * 1000),
                Cut::Pieces(max) => self.rng.between(1, max),
            };
            let Some(piece) = end.stream.take(limit) else { break };
            let host = end.host;
            len += piece.len;
            if piece.ends_message {
                messages += 1;
                self.signals.push_back(Signal::Taken { host, tcp });
            }
            self.launch(tcp, side, piece.segment, piece.len);
        }
        let Some(connection) = &self.connections[tcp.0] else { return };
        let end = connection.end(side);
        match end.state {
            EndState::Open if len > 0 => {
                if let Some(connection) = &mut self.connections[tcp.0] {
                    connection.end_mut(side).unreported += len;
                }
                self.todo.push_back(Todo::Sent { tcp, side, len, messages });
            }
            EndState::Flushing if !end.stream.has_unsent() => {
                self.hang_up(tcp, side, Segment::Fin);
            }
            _ => {}
        }
    }

    /// Sends a segment off: it waits for the link of its host, and never overtakes another.
    pub(super) fn launch(&mut self, tcp: TcpId, side: Side, segment: Segment, len: u64) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let (own, to) = (connection.end(side).port, connection.end(side.other()).host);
        let late = self.rng.between(0, self.cable().jitter.as_nanos() as u64);
        let delay = self.delay(own.host, to) + Duration::from_nanos(late);
        let sending = self.cable().time_of(len);
        let now = self.now;
        let link = self.link_mut(own);
        link.free = link.free.max(now) + sending;
        let arrival = link.free + delay;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(side).stream;
        let last = stream.flight.back().map_or(Time::ZERO, |(last, _)| *last);
        stream.flight.push_back((arrival.max(last), segment));
        self.arm_arrival(tcp, side.other());
    }

    pub(super) fn arm_arrival(&mut self, tcp: TcpId, reader: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = connection.incoming(reader);
        if let Some((at, _)) = stream.flight.front().filter(|_| !stream.armed) {
            self.queue.push(*at, Happening::Arrival { tcp, reader });
            stream.armed = true;
        }
    }

    pub(super) fn arrival(&mut self, tcp: TcpId, reader: Side) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let to = connection.end(reader).host;
        connection.incoming(reader).armed = false;
        if self.is_cut(tcp) {
            return;
        }
        while let Some(connection) = &mut self.connections[tcp.0] {
            let stream = connection.incoming(reader);
            if stream.flight.front().is_none_or(|(at, _)| *at > now) {
                break;
            }
            let Some((_, segment)) = stream.flight.pop_front() else { break };
            match (connection.end(reader).state, segment) {
                (EndState::Closed, Segment::Bytes(_) | Segment::Bulk(_)) => {
                    // Where nothing runs, nobody answers either.
                    if self.host(to).node.is_some() {
                        self.hang_up(tcp, reader, Segment::Reset);
                    }
                }
                (EndState::Closed | EndState::Flushing, Segment::Fin) => {}
                (_, Segment::Reset) => self.reset_arrived(tcp, reader),
                (EndState::Flushing, _) => {}
                (_, segment) => connection.incoming(reader).inbox.push_back(segment),
            }
        }
        self.todo.push_back(Todo::Read { tcp, side: reader, rested: false });
        self.arm_arrival(tcp, reader);
    }

    /// A reset ends a connection at once; what was not read yet is lost.
    fn reset_arrived(&mut self, tcp: TcpId, side: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).inbox.clear();
        let end = connection.end_mut(side);
        match end.state {
            EndState::Open => {
                end.stream.forget_unsent();
                let how = if self.rng.one_in(2) {
                    Closed::ReadError(Errno::ECONNRESET)
                } else {
                    Closed::WriteError(Errno::ECONNRESET)
                };
                self.todo.push_back(Todo::Closed { tcp, side, how });
            }
            EndState::Waiting if side == Side::Dialler => {
                let result = Err(DialError(Errno::ECONNRESET));
                self.todo.push_back(Todo::Dialled { tcp, result });
            }
            _ => end.state = EndState::Closed,
        }
        self.forget_if_over(tcp);
    }

    /// Tells the node that a connection has ended, unless it has closed it meanwhile.
    pub(super) fn closed(&mut self, tcp: TcpId, side: Side, how: Closed) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = connection.end_mut(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        let unreported = std::mem::take(&mut end.unreported);
        end.stream.forget_unsent();
        self.log.line(now, host, tcp, format_args!("closed {how:?}"));
        // Whoever read to the end, or failed, has nothing more to say either.
        self.hang_up(tcp, side, Segment::Fin);
        let this = self.host_mut(host);
        this.connections.remove(&id);
        this.stalled.remove(&id);
        if let Some(node) = &mut this.node {
            node.handle_closed(now, id, unreported, how);
        }
        self.signals.push_back(Signal::Ended { host, tcp });
        self.drain(host);
    }

    pub(super) fn close(&mut self, host: HostId, conn: ConnId, flush: bool) {
        let Some((tcp, side)) = self.host_mut(host).connections.remove(&conn) else {
            return self.broken(host, format!("{conn:?} is closed twice"));
        };
        self.host_mut(host).stalled.remove(&conn);
        self.log.line(self.now, host, tcp, format_args!("close, flush {flush}"));
        self.signals.push_back(Signal::Ended { host, tcp });
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let unread = !connection.incoming(side).inbox.is_empty();
        let end = connection.end_mut(side);
        let unreported = std::mem::take(&mut end.unreported);
        if let Some(node) = &mut self.hosts[host.0 as usize].node {
            node.handle_stopped(self.now, conn, unreported);
        }
        if end.state == EndState::Open && flush {
            end.state = EndState::Flushing;
            return self.transmit(tcp, side);
        }
        let last =
            if unread || end.state == EndState::Waiting { Segment::Reset } else { Segment::Fin };
        self.hang_up(tcp, side, last);
    }

    /// Ends one end of a connection, and lets the other end know.
    pub(super) fn hang_up(&mut self, tcp: TcpId, side: Side, last: Segment) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).inbox.clear();
        let end = connection.end_mut(side);
        end.state = EndState::Closed;
        end.stream.forget_unsent();
        if connection.end(side.other()).state != EndState::Closed {
            self.launch(tcp, side, last, 0);
        }
        self.forget_if_over(tcp);
    }

    pub(super) fn forget_if_over(&mut self, tcp: TcpId) {
        if self.connections[tcp.0].as_ref().is_some_and(|connection| connection.is_over()) {
            self.connections[tcp.0] = None;
        }
    }

    pub(super) fn window(&mut self, tcp: TcpId, writer: Side, len: u64) {
        let cut = self.is_cut(tcp);
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(writer).stream;
        if cut {
            stream.window_held += len;
        } else {
            stream.window += len;
            self.transmit(tcp, writer);
        }
    }

    pub(super) fn sent(&mut self, tcp: TcpId, side: Side, len: u64, messages: u32) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = connection.end_mut(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        end.unreported -= len;
        if messages > 0 && Planted::strikes(&mut self.canary, Canary::LostSent) {
            return;
        }
        let forwards = messages > 0 && self.options.is_router(host);
        if forwards && Planted::strikes(&mut self.canary, Canary::LostForward) {
            return;
        }
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_sent(now, id, len);
        }
        self.drain(host);
    }

    /// Returns where the canary puts bulk that belongs at `sink`.
    pub(super) fn misplace(&mut self, sink: Span) -> Span {
        if sink.len > 0 && Planted::strikes(&mut self.canary, Canary::Misplaced) {
            return Span { offset: sink.offset + 4, ..sink };
        }
        sink
    }
}

/// How long a caller waits for somebody whom its calls do not reach.
const SYN_TIMEOUT: Duration = Duration::from_secs(20);
