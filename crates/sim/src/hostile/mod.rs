//! A hostile host: it connects as any node does, and then sends what it likes.
//!
//! ```text
//! act                                            an action of its own, drawn from the seed
//! handle_accepted, handle_dialled, handle_bytes  what others do, and answers that are mostly wrong
//! poll_output                                    dials, bytes to write, closes
//! ```
//!
//! It knows all NIDs, and the headers that nodes send to each other. It can neither send from
//! another address than its own, nor hold up the packets of others.
//!
//! The option is `--hostile`. What such a host sends: forged sources, replayed handles, false ping
//! info, half and damaged messages. They are not nodes: operations, faults and checkers are those
//! of nodes only.

mod forge;
mod info;
mod link;

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{ConnId, Rng};
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{Header, Nid, Pid, ProcessId};
use fulmar_wire::Order;

use crate::options::pick;
use link::{Link, Stage};

/// A hostile host.
#[derive(Debug)]
pub(crate) struct HostileHost {
    rng: Rng,
    /// Its only NID.
    own: Nid,
    /// The NIDs of all nodes.
    victims: Vec<Nid>,
    /// Those of them on its own network.
    near: Vec<Nid>,
    incarnation: u64,
    links: BTreeMap<ConnId, Link>,
    next: u64,
    outputs: VecDeque<Output>,
    /// It sends no more.
    quiet: bool,
}

/// What a hostile host does.
#[derive(Debug)]
pub(crate) enum Output {
    Dial {
        conn: ConnId,
        to: Nid,
    },
    Write {
        conn: ConnId,
        bytes: Vec<u8>,
    },
    Close {
        conn: ConnId,
    },
    /// It reads this connection again.
    Listen {
        conn: ConnId,
    },
}

impl HostileHost {
    pub(crate) fn new(seed: u64, own: Nid, victims: Vec<Nid>) -> Self {
        let mut rng = Rng::new(seed ^ HOST_STREAM);
        let near = victims.iter().copied().filter(|nid| nid.net() == own.net()).collect();
        let incarnation = rng.u64();
        Self {
            rng,
            own,
            victims,
            near,
            incarnation,
            links: BTreeMap::new(),
            next: 0,
            outputs: VecDeque::new(),
            quiet: false,
        }
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the NID that the hello on a connection claims, if it is not its own.
    pub(crate) fn false_claim(&self, conn: ConnId) -> Option<Nid> {
        self.links.get(&conn).map(|link| link.claims.nid).filter(|nid| *nid != self.own)
    }

    /// Returns whether it reads a connection.
    pub(crate) fn reads(&self, conn: ConnId) -> bool {
        self.links.get(&conn).is_some_and(|link| !link.deaf)
    }

    /// Accepts a connection.
    pub(crate) fn handle_accepted(&mut self, from: Nid) -> ConnId {
        let claims = self.identity();
        let mut link = Link::new(from, claims, Stage::Request);
        link.deaf = self.quiet || self.rng.one_in(16);
        self.add(link)
    }

    pub(crate) fn handle_dialled(&mut self, conn: ConnId, opened: bool) {
        if !opened || self.quiet {
            return drop(self.links.remove(&conn));
        }
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.stage = Stage::Answer;
        let kinds = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT, ConnKind::ANY];
        let hello = Hello {
            version: *pick(&mut self.rng, &[Version::V3, Version::V3, Version::V3, Version::V2]),
            source: link.claims,
            target: ProcessId::lustre(link.peer),
            source_incarnation: self.incarnation,
            target_incarnation: 0,
            kind: *pick(&mut self.rng, &kinds),
            ips: Vec::new(),
        };
        let mut bytes = Vec::new();
        ConnRequest { target: link.peer }.encode(&mut bytes);
        hello.encode(Order::Little, &mut bytes);
        match self.rng.below(24) {
            0 => bytes.clear(),
            1 => bytes.truncate(self.rng.below(bytes.len() as u64) as usize),
            2 => self.flip(&mut bytes),
            _ => {}
        }
        self.write(conn, bytes);
    }

    pub(crate) fn handle_closed(&mut self, conn: ConnId) {
        self.links.remove(&conn);
    }

    /// Sends nothing more. With `stays` it keeps its connections and does not read them; without,
    /// it closes them.
    pub(crate) fn quiet(&mut self, stays: bool) {
        self.quiet = true;
        self.outputs.clear();
        for (conn, link) in &mut self.links {
            link.deaf = true;
            if !stays {
                self.outputs.push_back(Output::Close { conn: *conn });
            }
        }
    }

    /// Performs a drawn action. `overheard` are headers that nodes sent to each other.
    pub(crate) fn act(&mut self, overheard: &VecDeque<Header>) {
        if self.quiet {
            return;
        }
        match self.rng.below(16) {
            0..3 => self.dial_some(),
            3..8 => self.send_some(overheard),
            8..10 => self.replay(overheard),
            10 | 11 => self.push_info(),
            12 => self.ping_without_end(),
            13 => self.acknowledge_nonsense(),
            14 => self.send_half(),
            _ => self.close_or_turn_deaf(),
        }
    }

    fn dial_some(&mut self) {
        let count = *pick(&mut self.rng, &[1, 1, 2, 5, 20]);
        for _ in 0..count {
            if self.near.is_empty() || self.links.len() >= LINKS_MAX {
                return;
            }
            let peer = *pick(&mut self.rng, &self.near);
            let claims = self.identity();
            let conn = self.add(Link::new(peer, claims, Stage::Dialling));
            self.outputs.push_back(Output::Dial { conn, to: peer });
        }
    }

    fn close_or_turn_deaf(&mut self) {
        let Some(conn) = self.some_link() else { return };
        let Some(link) = self.links.get_mut(&conn) else { return };
        match self.rng.below(3) {
            0 if link.deaf => {
                link.deaf = false;
                self.outputs.push_back(Output::Listen { conn });
            }
            0 | 1 => link.deaf = true,
            _ => {
                self.links.remove(&conn);
                self.outputs.push_back(Output::Close { conn });
            }
        }
    }

    fn add(&mut self, link: Link) -> ConnId {
        let conn = ConnId(self.next);
        self.next += 1;
        self.links.insert(conn, link);
        conn
    }

    /// Draws an open connection, if there is one.
    fn some_link(&mut self) -> Option<ConnId> {
        let open = self.links.iter().filter(|(_, link)| link.stage == Stage::Open);
        let open: Vec<ConnId> = open.map(|(conn, _)| *conn).collect();
        (!open.is_empty()).then(|| *pick(&mut self.rng, &open))
    }

    /// Draws the identity of a hello: mostly its own, with any process, sometimes that of a node.
    fn identity(&mut self) -> ProcessId {
        match self.rng.below(16) {
            0 => ProcessId::lustre(*pick(&mut self.rng, &self.victims)),
            1 => ProcessId { nid: self.own, pid: Pid(self.rng.u64() as u32) },
            _ => ProcessId::lustre(self.own),
        }
    }

    fn write(&mut self, conn: ConnId, bytes: Vec<u8>) {
        if !self.quiet && !bytes.is_empty() {
            self.outputs.push_back(Output::Write { conn, bytes });
        }
    }

    fn send(&mut self, conn: ConnId, header: &Header, payload: &[u8]) {
        let bytes = message(header, payload);
        self.write(conn, bytes);
    }

    /// Changes a few bits.
    fn flip(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.rng.between(1, 4) {
            let place = self.rng.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << self.rng.below(8);
            }
        }
    }
}

/// Returns a framed message.
fn message(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHeader::lnet().encode(Order::Little, &mut bytes);
    header.encode(HeaderForm::Small, &mut bytes);
    bytes.extend(payload);
    bytes
}

/// The most connections that it opens.
const LINKS_MAX: usize = 80;
/// Gives each host a random stream of its own.
const HOST_STREAM: u64 = 0x686f_7374_0000_0000;
