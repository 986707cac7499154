//! Opening and closing of connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Span, Time};
use fulmar_lnd::{CloseCause, DialError};

use super::{ArmedDefect, HostId, HostTask, Port, ScheduledEvent, TcpId, World};
use crate::fabric::Path;
use crate::options::Defect;
use crate::signal::Signal;
use crate::tcp::{Connection, End, EndState, Segment, Side, Stream};
use crate::words;

impl World {
    /// Returns whether all packets of a connection are dropped.
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
        let path = target.filter(|port| same_net(*port));
        let path = path.and_then(|target| self.fabric.path(own, target));
        let backward = path.as_ref().map(|path| Arc::new(self.fabric.reverse(path)));
        let path = path.map(Arc::new);
        let options = &self.options.network.tcp;
        let end = |port: Port, addr, id, path: Option<Arc<Path>>| End {
            host: port.host,
            port,
            addr,
            id,
            state: EndState::Waiting,
            stream: Stream::new(options, path),
            unreported: 0,
            read_pending: false,
        };
        let reachable = path.is_some();
        self.connections.push(Some(Box::new(Connection {
            dialler: end(own, local, Some(conn), path),
            acceptor: end(target.unwrap_or(own), remote, None, backward),
            dialled: self.now,
        })));
        self.host_mut(host).connections.insert(conn, (tcp, Side::Dialler));
        if self.link(own).down {
            self.refuse(tcp, self.now, Errno::ENETUNREACH);
        } else if reachable {
            let at = self.now + self.syn_time(tcp, Side::Dialler);
            self.queue.push(at, ScheduledEvent::Syn { tcp });
        } else {
            self.refuse(tcp, self.now, Errno::EHOSTUNREACH);
        }
    }

    /// Returns the time that a packet without payload from `from` takes, including retransmissions
    /// of lost ones.
    fn syn_time(&mut self, tcp: TcpId, from: Side) -> Duration {
        let mut time = self.packet_time(tcp, from);
        let Some(connection) = &self.connections[tcp.0] else { return time };
        let Some(path) = connection.end(from).stream.path.clone() else { return time };
        let mut again = SYN_RETRY;
        while path.forward.iter().any(|lane| {
            let lane = self.fabric.lane_mut(*lane);
            !lane.lose(1, &mut self.rng).is_empty()
        }) {
            time += again;
            again = (again * 2).min(SYN_TIMEOUT);
        }
        time
    }

    /// Returns the time that a packet without payload from `from` takes now.
    pub(super) fn packet_time(&self, tcp: TcpId, from: Side) -> Duration {
        let connection = self.connections[tcp.0].as_ref();
        let path = connection.and_then(|connection| connection.end(from).stream.path.as_deref());
        path.map_or(Duration::ZERO, |path| self.fabric.time_over(&path.forward, self.now))
    }

    fn refuse(&mut self, tcp: TcpId, at: Time, errno: Errno) {
        self.queue.push(at, ScheduledEvent::Answer { tcp, result: Err(DialError(errno)) });
    }

    pub(super) fn syn(&mut self, tcp: TcpId) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let called = connection.acceptor.port;
        let gives_up = connection.dialled + SYN_TIMEOUT;
        if connection.dialler.state == EndState::Closed {
            self.connections[tcp.0] = None;
        } else if self.is_cut(tcp) {
            self.refuse(tcp, gives_up, Errno::ETIMEDOUT);
        } else if !self.is_up(called.host) || self.link(called).refuses {
            let at = self.now + self.syn_time(tcp, Side::Acceptor);
            self.refuse(tcp, at, Errno::ECONNREFUSED);
        } else {
            let at = self.now + self.syn_time(tcp, Side::Acceptor);
            self.queue.push(at, ScheduledEvent::Answer { tcp, result: Ok(()) });
            self.tasks.push_back(HostTask::Accept { tcp });
        }
    }

    pub(super) fn answer(&mut self, tcp: TcpId, result: Result<(), DialError>) {
        let Some(connection) = &self.connections[tcp.0] else { return };
        if result.is_ok() && self.is_cut(tcp) {
            let at = (connection.dialled + SYN_TIMEOUT).max(self.now);
            return self.refuse(tcp, at, Errno::ETIMEDOUT);
        }
        self.tasks.push_back(HostTask::Dialled { tcp, result });
    }

    pub(super) fn accept(&mut self, tcp: TcpId) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = &connection.acceptor;
        if end.state != EndState::Waiting {
            return;
        }
        let (host, local, from) = (end.host, end.addr, connection.dialler.port);
        let Some(remote) = self.address_of_dialler(tcp) else { return };
        self.block_acceptor(tcp);
        let from = self.nid_of(from);
        let this = &mut self.hosts[host.0 as usize];
        let shown = this.clock.show(now);
        let accepted = match (&mut this.node, &mut this.hostile) {
            (Some(node), _) => node.handle_accepted(shown, local, remote),
            (None, hostile) => hostile.as_mut().map(|hostile| hostile.handle_accepted(from)),
        };
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        match accepted {
            Some(id) => {
                connection.acceptor.id = Some(id);
                connection.acceptor.state = EndState::Open;
                self.host_mut(host).connections.insert(id, (tcp, Side::Acceptor));
                self.log.line(now, host, tcp, format_args!("accept {remote}"));
                self.drain(host);
                self.tasks.push_back(HostTask::Read { tcp, side: Side::Acceptor, rested: false });
            }
            None => {
                self.log.line(now, host, tcp, format_args!("reject {remote}"));
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
        self.log.line(now, host, tcp, format_args!("{}", words::dialled(&result)));
        let shown = self.shown(host);
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_dialled(shown, id, result.map(|()| addr));
        } else if let Some(hostile) = &mut self.host_mut(host).hostile {
            hostile.handle_dialled(id, result.is_ok());
            self.drain_hostile(host);
        }
        self.drain(host);
        self.tasks.push_back(HostTask::Read { tcp, side: Side::Dialler, rested: false });
        self.forget_if_over(tcp);
    }

    /// Ends one side of a connection at once; unread data are lost.
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
                    CloseCause::ReadError(Errno::ECONNRESET)
                } else {
                    CloseCause::WriteError(Errno::ECONNRESET)
                };
                self.tasks.push_back(HostTask::Closed { tcp, side, how });
            }
            EndState::Waiting if side == Side::Dialler => {
                let result = Err(DialError(Errno::ECONNRESET));
                self.tasks.push_back(HostTask::Dialled { tcp, result });
            }
            _ => end.state = EndState::Closed,
        }
        self.forget_if_over(tcp);
    }

    /// Notifies the node that a connection has ended, unless it has closed the connection itself.
    pub(super) fn closed(&mut self, tcp: TcpId, side: Side, how: CloseCause) {
        let now = self.now;
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let end = connection.end_mut(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        let unreported = std::mem::take(&mut end.unreported);
        end.stream.forget_unsent();
        self.log.line(now, host, tcp, format_args!("{}", words::closed(how)));
        // After the end of the stream or an error, nothing more is written either.
        let gives_up = how == CloseCause::WriteError(Errno::ETIMEDOUT);
        self.hang_up(tcp, side, if gives_up { Last::Reset } else { Last::Fin });
        let shown = self.shown(host);
        let this = self.host_mut(host);
        this.connections.remove(&id);
        this.stalled.remove(&id);
        if let Some(node) = &mut this.node {
            node.handle_closed(shown, id, unreported, how);
        } else if let Some(hostile) = &mut this.hostile {
            hostile.handle_closed(id);
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

    /// Closes one side of a connection, and notifies the other side.
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

    /// Sends a reset to one side of a connection.
    pub(super) fn reset_towards(&mut self, tcp: TcpId, reader: Side) {
        let at = self.now + self.packet_time(tcp, reader.other());
        self.queue.push(at, ScheduledEvent::Reset { tcp, reader });
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
        if messages > 0 && ArmedDefect::triggers(&mut self.defect, Defect::LostSent) {
            return;
        }
        let forwards = messages > 0 && self.options.is_router(host);
        if forwards && ArmedDefect::triggers(&mut self.defect, Defect::LostForward) {
            return;
        }
        let shown = self.shown(host);
        if let Some(node) = &mut self.host_mut(host).node {
            node.handle_sent(shown, id, len);
        }
        self.drain(host);
    }

    /// Returns `sink`, or a wrong place if the deliberate defect triggers.
    pub(super) fn misplace(&mut self, sink: Span) -> Span {
        if sink.len > 0 && ArmedDefect::triggers(&mut self.defect, Defect::Misplaced) {
            return Span { offset: sink.offset + 4, ..sink };
        }
        sink
    }
}

/// How one side closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Written data still arrive.
    Fin,
    /// Nothing more arrives, in either direction.
    Reset,
}

/// The first retransmission timeout of a connection request.
const SYN_RETRY: Duration = Duration::from_secs(1);
/// The timeout of dialling an unreachable host.
const SYN_TIMEOUT: Duration = Duration::from_secs(20);
