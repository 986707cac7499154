//! Runs the hostile hosts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Rng, Span, Time};
use fulmar_lnet_wire::{Header, Nid};

use super::{ArmedDefect, HostId, Port, ScheduledEvent, TcpId, World};
use crate::hostile::{HostileHost, Output};
use crate::options::{Defect, pick};
use crate::tcp::{EndState, Segment, Side};

impl World {
    /// Starts the hostile hosts, and draws the times of their actions: most while nodes are busy,
    /// some later.
    pub(super) fn start_hostile(&mut self) {
        let Some(hostile) = self.options.hostile.clone() else { return };
        let bunches = self.options.bunch_times();
        let victims: Vec<Nid> = self.host_ids().flat_map(|host| self.nids(host)).collect();
        for host in self.options.hostile_hosts() {
            let seed = self.options.seed ^ u64::from(host.0) << 32;
            let one = HostileHost::new(seed, self.nid(host), victims.clone());
            self.host_mut(host).hostile = Some(one);
            let mut rng = Rng::new(seed ^ ACT_STREAM);
            for _ in 0..hostile.acts {
                let late = *pick(&mut rng, &[1_000_000, 100_000_000, 2_000_000_000]);
                let late = Duration::from_nanos(rng.below(late));
                let at = match rng.below(8) {
                    0 => Time::ZERO,
                    1 => self.options.safety,
                    _ => *pick(&mut rng, &bunches),
                };
                self.queue.push(at + late, ScheduledEvent::Hostile(host));
            }
        }
    }

    /// Ends all hostile actions.
    pub(crate) fn quiet_hostile(&mut self) {
        let Some(stays) = self.options.hostile.as_ref().map(|hostile| hostile.stays) else {
            return;
        };
        for host in self.options.hostile_hosts() {
            self.note(host, "-", format_args!("quiet, stays {stays}"));
            if let Some(one) = &mut self.host_mut(host).hostile {
                one.quiet(stays);
            }
            if !stays {
                self.refuse_connections(Port { host, index: 0 }, true);
            }
            self.drain_hostile(host);
        }
    }

    /// Returns whether a host is hostile.
    pub(crate) fn is_hostile(&self, host: HostId) -> bool {
        self.options.is_hostile(host)
    }

    /// Returns whether a NID is that of a hostile host.
    pub(crate) fn is_hostile_nid(&self, nid: Nid) -> bool {
        self.host_of(nid).is_some_and(|host| self.is_hostile(host))
    }

    /// Returns whether an address is that of a node.
    pub(crate) fn is_of_node(&self, address: IpAddr) -> bool {
        let port = Port::of_ip(address).filter(|port| self.has(*port));
        port.is_some_and(|port| !self.is_hostile(port.host))
    }

    /// Returns whether a node has a NID in the record of a hostile host.
    pub(crate) fn is_listed_by_hostile(&self, node: HostId, nid: Nid) -> bool {
        if self.options.hostile.is_none() {
            return false;
        }
        let peers = self.node(node).map(|node| node.lnet().peers()).unwrap_or_default();
        let with_it = peers.iter().find(|peer| peer.nis.iter().any(|ni| ni.nid == nid));
        let of_node = |nid| self.host_of(nid).is_some_and(|host| !self.is_hostile(host));
        with_it.is_some_and(|peer| !of_node(peer.primary))
    }

    /// Returns whether something on a host handles its connections.
    pub(super) fn is_up(&self, host: HostId) -> bool {
        let host = self.host(host);
        host.node.is_some() || host.hostile.is_some()
    }

    /// Remembers a header that one node sent to another.
    pub(super) fn overhear(&mut self, header: &Header) {
        if self.options.hostile.is_none() {
            return;
        }
        if self.overheard.len() == OVERHEARD_MAX {
            self.overheard.pop_front();
        }
        self.overheard.push_back(*header);
    }

    pub(super) fn act_hostile(&mut self, host: HostId) {
        let overheard = std::mem::take(&mut self.overheard);
        if let Some(one) = &mut self.host_mut(host).hostile {
            one.act(&overheard);
        }
        self.overheard = overheard;
        self.drain_hostile(host);
    }

    /// Executes the outputs of a hostile host.
    pub(super) fn drain_hostile(&mut self, host: HostId) {
        while let Some(output) = self.host_mut(host).hostile.as_mut().and_then(|h| h.poll_output())
        {
            match output {
                Output::Dial { conn, to } => {
                    let own = Port { host, index: 0 };
                    let Some(ip) = to.ip() else { continue };
                    self.dial(host, conn, own.ip(), SocketAddr::new(ip, LNET_PORT));
                }
                Output::Write { conn, bytes } => self.write_hostile(host, conn, bytes),
                Output::Close { conn } => {
                    if self.host(host).connections.contains_key(&conn) {
                        self.close(host, conn, false);
                    }
                }
                Output::Listen { conn } => {
                    if let Some(&(tcp, side)) = self.host(host).connections.get(&conn) {
                        self.read_hostile(tcp, side, host, conn);
                    }
                }
            }
        }
    }

    fn write_hostile(&mut self, host: HostId, conn: ConnId, bytes: Vec<u8>) {
        let Some(&(tcp, side)) = self.host(host).connections.get(&conn) else { return };
        self.log.line(self.now, host, tcp, format_args!("write {} hostile", bytes.len()));
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let stream = &mut connection.end_mut(side).stream;
        stream.write(bytes, fulmar_base::Payload::Empty, false, None);
        self.transmit(tcp, side);
    }

    /// Lets a hostile host read what has arrived, unless it does not want to.
    pub(super) fn read_hostile(&mut self, tcp: TcpId, side: Side, host: HostId, conn: ConnId) {
        let mut used = 0;
        while self.host(host).hostile.as_ref().is_some_and(|one| one.reads(conn)) {
            let Some(connection) = &mut self.connections[tcp.0] else { return };
            if connection.end(side).state != EndState::Open {
                break;
            }
            let Some(segment) = connection.incoming(side).inbox.pop_front() else { break };
            if matches!(segment, Segment::Fin) {
                let how = fulmar_lnd::CloseCause::Eof;
                self.tasks.push_back(super::HostTask::Closed { tcp, side, how });
                break;
            }
            used += segment.len();
            if let Some(one) = &mut self.host_mut(host).hostile {
                one.handle_data(conn, &segment);
            }
            self.drain_hostile(host);
        }
        self.give_window(tcp, side, used);
    }

    /// Returns the address from which a node sees a connection: the true one, unless the deliberate
    /// defect lets a hostile host have the address that its hello claims.
    pub(super) fn address_of_dialler(&mut self, tcp: TcpId) -> Option<SocketAddr> {
        let connection = self.connections[tcp.0].as_ref()?;
        let (port, addr) = (connection.dialler.port, connection.dialler.addr);
        let host = self.host(port.host).hostile.as_ref();
        let claim = host.and_then(|one| one.false_claim(connection.dialler.id?));
        let claim = claim.filter(|nid| self.nid_of(connection.acceptor.port).net() == nid.net());
        match claim.and_then(Nid::ip) {
            Some(ip) if ArmedDefect::triggers(&mut self.defect, Defect::Impersonated) => {
                Some(SocketAddr::new(ip, addr.port()))
            }
            _ => Some(addr),
        }
    }

    /// Blocks a node that accepts a connection of a hostile host, if the deliberate defect triggers.
    pub(super) fn block_acceptor(&mut self, tcp: TcpId) {
        let Some(connection) = &self.connections[tcp.0] else { return };
        let (from, to) = (connection.dialler.host, connection.acceptor.host);
        if self.is_hostile(from) && ArmedDefect::triggers(&mut self.defect, Defect::Blocked) {
            let until = self.now + BLOCKED;
            self.host_mut(to).paused_until = until;
        }
    }
}

/// Returns a name for bytes that a hostile host sent into memory of a node.
pub(super) fn hostile_span(len: u32) -> Span {
    Span { buffer: BufferId(u64::MAX), offset: 0, len }
}

const LNET_PORT: u16 = 988;
/// How many headers hostile hosts remember.
const OVERHEARD_MAX: usize = 32;
/// How long the deliberate defect blocks a node.
const BLOCKED: Duration = Duration::from_secs(60);
/// Gives the times of actions a random stream of their own.
const ACT_STREAM: u64 = 0x6163_7400_0000_0000;
