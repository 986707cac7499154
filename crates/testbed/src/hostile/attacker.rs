//! The process of an attack: identities, connections, and what it counts.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fulmar_base::Rng;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{Body, Header, Nid, RESERVED_PORTAL};
use serde::{Deserialize, Serialize};

use super::forge;
use super::line::{Line, dial, handshake};

/// What an attacker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The name of the attack.
    pub attack: String,
    /// The attacked node.
    pub target: Nid,
    /// A NID of its other network, if it routes.
    pub behind: Option<Nid>,
    /// NIDs of other nodes, which the attacker claims.
    pub victims: Vec<Nid>,
    /// The seed of all that is chosen at random.
    pub seed: u64,
}

/// What an attacker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that failed, or that the node closed.
    pub refused: u64,
    /// Messages that were sent, or parts of them.
    pub sent: u64,
    /// Messages that were read completely.
    pub received: u64,
    /// Messages for a victim that were received.
    pub hijacked: u64,
}

/// An attack in progress.
#[derive(Debug)]
pub(super) struct Attacker {
    pub(super) target: Nid,
    pub(super) behind: Option<Nid>,
    pub(super) victims: Vec<Nid>,
    pub(super) rng: Rng,
    pub(super) tally: Tally,
    ports: BTreeMap<IpAddr, u16>,
    end: Arc<AtomicBool>,
    begun: Instant,
    is_ready: bool,
}

/// What an identity answers to a ping.
pub(super) type InfoOf<'a> = dyn Fn(Nid) -> Vec<u8> + 'a;

/// How many identities there are.
pub(super) const IDENTITIES: u64 = 60_000;

impl Attacker {
    /// Creates the attacker, which goes on until `end` is set.
    pub(super) fn new(orders: &Orders, end: Arc<AtomicBool>) -> Self {
        Self {
            target: orders.target,
            behind: orders.behind,
            victims: orders.victims.clone(),
            rng: Rng::new(orders.seed),
            tally: Tally::default(),
            ports: BTreeMap::new(),
            end,
            begun: Instant::now(),
            is_ready: false,
        }
    }

    /// Returns whether the attack goes on.
    pub(super) fn goes_on(&self) -> bool {
        !self.end.load(Ordering::Relaxed)
    }

    /// Reports once that the attack is under way.
    pub(super) fn ready(&mut self) {
        if !self.is_ready {
            println!("ready");
            self.is_ready = true;
        }
    }

    /// Returns one of the addresses that lead to the attacker.
    pub(super) fn address(&self, number: u64) -> IpAddr {
        let number = (number % IDENTITIES) as u16 + 1;
        if self.target.is_large() {
            Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, number).into()
        } else {
            Ipv4Addr::from(0x0a03_0000 | u32::from(number)).into()
        }
    }

    /// Returns its NID.
    pub(super) fn identity(&self, number: u64) -> Nid {
        Nid::of_ip(self.target.net(), self.address(number))
    }

    /// Opens a TCP connection from the next privileged port of an identity.
    pub(super) fn dial(&mut self, identity: u64) -> io::Result<TcpStream> {
        let from = self.address(identity);
        let mut result = Err(io::ErrorKind::AddrInUse.into());
        for _ in 0..PORTS {
            let next = self.ports.entry(from).or_insert(0);
            *next = (*next + 1) % PORTS;
            let port = 1023 - *next;
            result = dial(from, port, self.target);
            if !result.as_ref().is_err_and(|error| is_in_use(error.kind())) {
                break;
            }
        }
        self.counted(result)
    }

    /// Opens a TCP connection from any port.
    pub(super) fn dial_unprivileged(&mut self, identity: u64) -> io::Result<TcpStream> {
        let result = dial(self.address(identity), 0, self.target);
        self.counted(result)
    }

    /// Opens a connection as an identity.
    pub(super) fn open(&mut self, identity: u64, kind: ConnKind) -> io::Result<Line> {
        self.open_as(identity, self.identity(identity), kind, 1)
    }

    /// Opens a connection from the address of an identity, with another NID in the hello.
    pub(super) fn open_as(
        &mut self,
        identity: u64,
        nid: Nid,
        kind: ConnKind,
        incarnation: u64,
    ) -> io::Result<Line> {
        let stream = self.dial(identity)?;
        let line = Line::open(stream, nid, &handshake(nid, self.target, kind, incarnation));
        self.tally.refused += u64::from(line.is_err());
        line
    }

    fn counted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        // Beside other attackers a node may let each connection wait.
        if self.begun.elapsed() > READY_MAX {
            self.ready();
        }
        match &result {
            Ok(_) => self.tally.opened += 1,
            Err(_) => self.tally.refused += 1,
        }
        result
    }

    /// Pauses when there is nothing to do for the attack.
    pub(super) fn rest(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Waits, unless the attack ends.
    pub(super) fn wait(&self, duration: Duration) {
        let begun = Instant::now();
        while self.goes_on() && begun.elapsed() < duration {
            self.rest();
        }
    }

    /// Handles the messages that were read: counts them, and answers pings with `info`, if given.
    pub(super) fn take(&mut self, line: &mut Line, info: Option<&InfoOf<'_>>) {
        while let Some((header, _)) = line.next() {
            self.tally.received += 1;
            self.tally.hijacked += u64::from(self.victims.contains(&header.target));
            if let Some(info) = info {
                answer(line, &header, info);
            }
        }
    }
}

/// Answers a ping, and acknowledges a PUT.
pub(super) fn answer(line: &mut Line, header: &Header, info: &InfoOf<'_>) {
    let (source, target) = (header.target, header.source);
    match header.body {
        Body::Get { portal: RESERVED_PORTAL, reply, .. } => {
            line.send(
                &forge::header(source, target, Body::Reply { handle: reply }),
                &info(line.nid),
            );
        }
        Body::Put { ack, match_bits, .. } => {
            let body = Body::Ack { handle: ack, match_bits, accepted: 0 };
            line.send(&forge::header(source, target, body), &[]);
        }
        _ => {}
    }
}

/// An attack counts as under way after this time, with the connections that it has by then.
const READY_MAX: Duration = Duration::from_secs(5);
/// Privileged ports that each address uses.
const PORTS: u16 = 1000;

fn is_in_use(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}
