//! Messages that no correct node sends.

use std::collections::VecDeque;

use fulmar_base::ConnId;
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind};
use fulmar_lnet_wire::{Body, Handle, Header, Nid, PING_MATCH_BITS, Pid, RESERVED_PORTAL};
use fulmar_wire::Order;

use super::{HostileHost, message};
use crate::options::pick;
use crate::workload::portals;

impl HostileHost {
    /// Sends messages of all kinds.
    pub(super) fn send_some(&mut self, overheard: &VecDeque<Header>) {
        let Some(conn) = self.some_link() else { return self.dial_some() };
        for _ in 0..*pick(&mut self.rng, &[1, 1, 3, 10, 40]) {
            let header = self.forged(conn, overheard);
            let payload = vec![0; header.payload_len as usize];
            if self.rng.one_in(24) {
                let mut bytes = message(&header, &payload);
                let heads = bytes.len() - payload.len();
                self.flip(&mut bytes[..heads]);
                self.write(conn, bytes);
            } else {
                self.send(conn, &header, &payload);
            }
        }
    }

    /// Sends a message again that a node sent to another, or an answer to it. Messages that any
    /// sender may send are no proof of anything, and are not repeated.
    pub(super) fn replay(&mut self, overheard: &VecDeque<Header>) {
        if overheard.is_empty() {
            return self.dial_some();
        }
        let heard = overheard[self.rng.below(overheard.len() as u64) as usize];
        let (body, payload_len, target) = match heard.body {
            Body::Put { portal: portals::UNIQUE, .. }
            | Body::Get { portal: portals::UNIQUE, .. }
                if self.rng.one_in(2) =>
            {
                (heard.body, heard.payload_len, heard.target)
            }
            Body::Put { ack, match_bits, .. } => {
                let body = Body::Ack { handle: ack, match_bits, accepted: heard.payload_len };
                (body, 0, heard.source)
            }
            Body::Get { reply, sink_len, .. } => {
                (Body::Reply { handle: reply }, sink_len, heard.source)
            }
            Body::Ack { .. } | Body::Reply { .. } => (heard.body, heard.payload_len, heard.target),
        };
        let source = if target == heard.target { heard.source } else { heard.target };
        let source = if self.rng.one_in(3) { self.own } else { source };
        let payload_len = payload_len.min(PAYLOAD_MAX);
        let found = self.links.iter().find(|(_, link)| link.peer == target);
        let Some(conn) = found.map(|(conn, _)| *conn).or_else(|| self.some_link()) else {
            return self.dial_some();
        };
        let header = Header { target, source, payload_len, body, ..heard };
        self.send(conn, &header, &vec![0; payload_len as usize]);
    }

    pub(super) fn push_info(&mut self) {
        let Some(conn) = self.some_link() else { return self.dial_some() };
        let payload = self.info();
        let ack = self.handle();
        let (match_bits, portal) = (PING_MATCH_BITS, RESERVED_PORTAL);
        let body = Body::Put { ack, match_bits, header_data: 0, portal, offset: 0 };
        let header = self.addressed(conn, body, payload.len() as u32);
        self.send(conn, &header, &payload);
    }

    /// Sends many pings, sometimes without reading the replies.
    pub(super) fn ping_without_end(&mut self) {
        let Some(conn) = self.some_link() else { return self.dial_some() };
        if let Some(link) = self.links.get_mut(&conn) {
            link.deaf |= self.rng.one_in(2);
        }
        for _ in 0..*pick(&mut self.rng, &[1, 20, 700]) {
            let reply = Handle { interface: self.incarnation, object: self.rng.u64() };
            let sink_len = *pick(&mut self.rng, &[0, 16, 272, 4096, u32::MAX]);
            let (match_bits, portal) = (PING_MATCH_BITS, RESERVED_PORTAL);
            let body = Body::Get { reply, match_bits, portal, offset: 0, sink_len };
            let header = self.plain(conn, body, 0);
            self.send(conn, &header, &[]);
        }
    }

    /// Acknowledges zero-copy messages that no node sent.
    pub(super) fn acknowledge_nonsense(&mut self) {
        let Some(conn) = self.some_link() else { return self.dial_some() };
        let (one, other) = (self.rng.below(100), self.rng.u64());
        let cookies =
            *pick(&mut self.rng, &[[0, one], [one, one + 3], [other, one], [1, u64::MAX]]);
        let kind = *pick(&mut self.rng, &[FrameKind::NOOP, FrameKind::NOOP, FrameKind(0xc7)]);
        let mut bytes = Vec::new();
        FrameHeader { kind, checksum: 0, cookies }.encode(Order::Little, &mut bytes);
        self.write(conn, bytes);
    }

    /// Sends a part of a message, and then nothing or other bytes.
    pub(super) fn send_half(&mut self) {
        let Some(conn) = self.some_link() else { return self.dial_some() };
        let header = self.forged(conn, &VecDeque::new());
        let header = Header { payload_len: header.payload_len.max(100), ..header };
        let mut bytes = message(&header, &[0; 99]);
        bytes.truncate(1 + self.rng.below(bytes.len() as u64) as usize);
        self.write(conn, bytes);
    }

    /// Draws a message.
    fn forged(&mut self, conn: ConnId, overheard: &VecDeque<Header>) -> Header {
        let portals = [
            portals::UNIQUE,
            portals::WILDCARD,
            portals::REQUEST,
            portals::NOTHING,
            portals::REGION,
            RESERVED_PORTAL,
            50,
            63,
            64,
            u32::MAX,
        ];
        let portal = *pick(&mut self.rng, &portals);
        // The workload's own match bits have the highest bit clear.
        let match_bits = 1 << 63 | if self.rng.one_in(2) { self.rng.u64() } else { 0 };
        let offset = *pick(&mut self.rng, &[0, 0, 1000, u32::MAX]);
        let sink_len = *pick(&mut self.rng, &[0, 1000, 1 << 20, u32::MAX]);
        let header_data = self.rng.u64();
        let mut handle = self.handle();
        let heard = overheard.get(self.rng.below(overheard.len() as u64) as usize);
        if let Some(Body::Put { ack: own, .. } | Body::Get { reply: own, .. }) =
            heard.map(|header| header.body)
            && self.rng.one_in(2)
        {
            handle = own;
        }
        let body = match self.rng.below(8) {
            0..3 => Body::Put { ack: handle, match_bits, header_data, portal, offset },
            3..6 => Body::Get { reply: handle, match_bits, portal, offset, sink_len },
            6 => Body::Ack { handle, match_bits, accepted: sink_len },
            _ => Body::Reply { handle },
        };
        let payload_len = match body {
            Body::Put { .. } | Body::Reply { .. } => *pick(&mut self.rng, &[0, 0, 1, 900, 5000]),
            _ if self.rng.one_in(16) => 8,
            _ => 0,
        };
        self.addressed(conn, body, payload_len)
    }

    /// Addresses a message, mostly truly.
    fn addressed(&mut self, conn: ConnId, body: Body, payload_len: u32) -> Header {
        let mut header = self.plain(conn, body, payload_len);
        match self.rng.below(8) {
            0 | 1 => header.source = *pick(&mut self.rng, &self.victims),
            2 => header.source = self.nonexistent(),
            3 => header.source = *pick(&mut self.rng, &[Nid::LOOPBACK, Nid::ANY, header.target]),
            _ => {}
        }
        match self.rng.below(8) {
            0 | 1 => header.target = *pick(&mut self.rng, &self.victims),
            2 if self.rng.one_in(2) => header.target = self.nonexistent(),
            3 if self.rng.one_in(4) => {
                header.target = *pick(&mut self.rng, &[Nid::LOOPBACK, Nid::ANY, self.own]);
            }
            _ => {}
        }
        header
    }

    /// Returns a header with the NIDs of a connection.
    fn plain(&self, conn: ConnId, body: Body, payload_len: u32) -> Header {
        let target = self.links.get(&conn).map_or(self.own, |link| link.peer);
        let (target_pid, source_pid) = (Pid::LUSTRE, Pid::LUSTRE);
        Header { target, source: self.own, target_pid, source_pid, payload_len, body }
    }

    fn handle(&mut self) -> Handle {
        match self.rng.below(4) {
            0 => Handle::NONE,
            1 => Handle { interface: self.rng.u64(), object: self.rng.below(100) },
            _ => Handle { interface: self.incarnation, object: self.rng.u64() },
        }
    }
}

/// The longest payload that it sends.
const PAYLOAD_MAX: u32 = 100_000;
