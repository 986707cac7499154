//! Calls, and how connections end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Span, Time};
use fulmar_lnd::{Closed, DialError};

use super::{Happening, HostId, Planted, Port, TcpId, Todo, World};
use crate::fabric::Way;
use crate::options::Canary;
use crate::signal::Signal;
use crate::tcp::{Connection, End, EndState, Segment, Side, Stream};

impl World {
    /// Returns whether nothing passes between the ends of a connection.
    pub(super) fn is_cut(&self, tcp: TcpId) -> bool {
        let Some(connection) = &self.connections[tcp.0] else { return false };
        let [one, other] = Side::BOTH.map(|side| connection.end(side).port);
        let hosts = (one.host.min(other.host), one.host.max(other.host));
        self.partitions.contains(&hosts) || self.link(one).cut || self.link(other).cut
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
        let same_net = |port| self.nid_of(port).net() == self.nid_of(own).net();
        let way = target.filter(|port| same_net(*port));
        let way = way.and_then(|target| self.fabric.way(own, target));
        let back = way.as_ref().map(|way| Arc::new(self.fabric.reverse(way)));
        let way = way.map(Arc::new);
        let options = &self.options.network.tcp;
        let end = |port: Port, addr, id, way: Option<Arc<Way>>| End {
            host: port.host,
            port,
            addr,
            id,
            state: EndState::Waiting,
            stream: Stream::new(options, way),
            unreported: 0,
            read_pending: false,
        };
        let reachable = way.is_some();
        self.connections.push(Some(Box::new(Connection {
            dialler: end(own, local, Some(conn), way),
            acceptor: end(target.unwrap_or(own), remote, None, back),
            dialled: self.now,
        })));
        self.host_mut(host).connections.insert(conn, (tcp, Side::Dialler));
        if self.link(own).down {
            self.refuse(tcp, self.now, Errno::ENETUNREACH);
        } else if reachable {
            let at = self.now + self.call_time(tcp, Side::Dialler);
            self.queue.push(at, Happening::Syn { tcp });
        } else {
            self.refuse(tcp, self.now, Errno::EHOSTUNREACH);
        }
    }

    /// Returns how long a packet without payload takes that `from` sends, if it is sent again
    /// until it arrives.
    fn call_time(&mut self, tcp: TcpId, from: Side) -> Duration {
        let mut time = self.packet_time(tcp, from);
        let Some(connection) = &self.connections[tcp.0] else { return time };
        let Some(way) = connection.end(from).stream.way.clone() else { return time };
        let mut again = CALL_AGAIN;
        while way.there.iter().any(|lane| {
            let lane = self.fabric.lane_mut(*lane);
            !lane.lose(1, &mut self.rng).is_empty()
        }) {
            time += again;
            again = (again * 2).min(SYN_TIMEOUT);
        }
        time
    }

    /// Returns how long a packet without payload takes that `from` sends now.
    pub(super) fn packet_time(&self, tcp: TcpId, from: Side) -> Duration {
        let connection = self.connections[tcp.0].as_ref();
        let way = connection.and_then(|connection| connection.end(from).stream.way.as_deref());
        way.map_or(Duration::ZERO, |way| self.fabric.time_over(&way.there, self.now))
    }

    fn refuse(&mut self, tcp: TcpId, at: Time, errno: Errno) {
        self.queue.push(at, Happening::Answer { tcp, result: Err(DialError(errno)) });
    }

    pub(super) fn syn(&mut self, tcp: TcpId) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let called = connection.acceptor.port;
        let gives_up = connection.dialled + SYN_TIMEOUT;
        if connection.dialler.state == EndState::Closed {
            self.connections[tcp.0] = None;
        } else if self.is_cut(tcp) {
            self.refuse(tcp, gives_up, Errno::ETIMEDOUT);
        } else if self.host(called.host).node.is_none() || self.link(called).refuses {
            let at = self.now + self.call_time(tcp, Side::Acceptor);
            self.refuse(tcp, at, Errno::ECONNREFUSED);
        } else {
            let at = self.now + self.call_time(tcp, Side::Acceptor);
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
        let this = &mut self.hosts[host.0 as usize];
        let shown = this.clock.show(now);
        let node = this.node.as_mut();
        match node.and_then(|node| node.handle_accepted(shown, local, remote)) {
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
                self.hang_up(tcp, Side::Acceptor, Last::Fin);
                self.drain(host);
            }
        }
    }

    pub(super) fn dialled(&mut self, tcp: TcpId, result: Result<(), DialError>) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let ends = [connection.dialler.addr, connection.acceptor.addr];
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
        if let Some(capture) = &mut self.capture {
            match &result {
                Ok(()) => capture.open(now, tcp, ends),
                Err(_) => capture.refuse(now, ends),
            }
        }
        self.log.line(now, host, tcp, format_args!("dialled {result:?}"));
        let shown = self.shown(host);
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_dialled(shown, id, result.map(|()| addr));
        }
        self.drain(host);
        self.todo.push_back(Todo::Read { tcp, side: Side::Dialler, rested: false });
        self.forget_if_over(tcp);
    }

    /// A reset ends a connection at once; what was not read yet is lost.
    fn reset_arrived(&mut self, tcp: TcpId, side: Side) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).inbox.clear();
        let end = connection.end_mut(side);
        if end.state != EndState::Waiting {
            end.stream.abort();
        }
        match end.state {
            EndState::Open => {
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
        let gives_up = how == Closed::WriteError(Errno::ETIMEDOUT);
        self.hang_up(tcp, side, if gives_up { Last::Reset } else { Last::Fin });
        let shown = self.shown(host);
        let this = self.host_mut(host);
        this.connections.remove(&id);
        this.stalled.remove(&id);
        if let Some(node) = &mut this.node {
            node.handle_closed(shown, id, unreported, how);
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
        let this = &mut self.hosts[host.0 as usize];
        let shown = this.clock.show(self.now);
        if let Some(node) = &mut this.node {
            node.handle_stopped(shown, conn, unreported);
        }
        if end.state == EndState::Open && flush {
            end.state = EndState::Flushing;
            return self.transmit(tcp, side);
        }
        let last = if unread || end.state == EndState::Waiting { Last::Reset } else { Last::Fin };
        self.hang_up(tcp, side, last);
    }

    /// Ends one end of a connection, and lets the other end know.
    pub(super) fn hang_up(&mut self, tcp: TcpId, side: Side, last: Last) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).inbox.clear();
        let other = connection.end(side.other()).state;
        let end = connection.end_mut(side);
        end.state = EndState::Closed;
        end.stream.forget_unsent();
        match last {
            _ if other == EndState::Closed => {}
            Last::Fin => {
                end.stream.put(Segment::Fin);
                self.kick(tcp, side);
            }
            Last::Reset => {
                end.stream.abort();
                self.reset_towards(tcp, side.other());
            }
        }
        self.forget_if_over(tcp);
    }

    /// Lets a reset be on its way to one end of a connection.
    pub(super) fn reset_towards(&mut self, tcp: TcpId, reader: Side) {
        let at = self.now + self.packet_time(tcp, reader.other());
        self.queue.push(at, Happening::Reset { tcp, reader });
    }

    pub(super) fn reset_arrives(&mut self, tcp: TcpId, reader: Side) {
        if !self.is_cut(tcp) {
            if let Some(capture) = &mut self.capture {
                capture.reset(self.now, tcp, reader.other());
            }
            self.reset_arrived(tcp, reader);
        }
    }

    pub(super) fn forget_if_over(&mut self, tcp: TcpId) {
        if self.connections[tcp.0].as_ref().is_some_and(|connection| connection.is_over()) {
            self.connections[tcp.0] = None;
        }
    }

    pub(super) fn sent(&mut self, tcp: TcpId, side: Side, len: u64, messages: u32) {
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
        let shown = self.shown(host);
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_sent(shown, id, len);
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

/// How an end of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// What it has written still arrives.
    Fin,
    /// Nothing more arrives, in either direction.
    Reset,
}

/// When a call is sent again that was lost, for the first time.
const CALL_AGAIN: Duration = Duration::from_secs(1);
/// How long a caller waits for somebody whom its calls do not reach.
const SYN_TIMEOUT: Duration = Duration::from_secs(20);
