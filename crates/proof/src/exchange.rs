//! Single operations that wait until they are done, and the data that they carry.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, Md, MdId, MdOptions, Me, MeId, MePosition, Put};
use fulmar_lnet_wire::ping::{Features, PingInfo};
use fulmar_lnet_wire::{PING_MATCH_BITS, ProcessId, RESERVED_PORTAL};
use fulmar_net::{Buffer, Handler, Node};

/// Where an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The node.
    pub process: ProcessId,
    /// Its portal.
    pub portal: u32,
    /// What its match entry must match.
    pub match_bits: u64,
}

impl Target {
    /// Returns where `process` answers pings and takes pushes.
    pub fn ping(process: ProcessId) -> Self {
        Self { process, portal: RESERVED_PORTAL, match_bits: PING_MATCH_BITS }
    }
}

/// The events of a descriptor, to wait for.
#[derive(Debug)]
pub struct Events(Receiver<Event>);

/// Returns a handler, and where the events that it is given can be waited for.
pub fn recorder() -> (Arc<dyn Handler>, Events) {
    let (sender, receiver) = channel();
    let handler = move |_: &Node, event: &Event| {
        // Nobody may be waiting any more.
        let _ = sender.send(*event);
    };
    (Arc::new(handler), Events(receiver))
}

impl Events {
    /// Waits for the next event of `kind`; others are passed over, unless one tells of a failure.
    ///
    /// # Errors
    /// What the event says, or ETIMEDOUT.
    pub fn wait(&self, kind: EventKind, timeout: Duration) -> Result<Event, Errno> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.0.recv_timeout(left).map_err(|_| Errno::ETIMEDOUT)?;
            event.status?;
            if event.kind == kind {
                return Ok(event);
            }
        }
    }
}

/// Stores `buffer` at `target` and waits until it is acknowledged.
///
/// # Errors
/// Why it was not.
pub fn put(
    node: &Node,
    target: Target,
    buffer: &Buffer,
    header_data: u64,
    timeout: Duration,
) -> Result<Event, Errno> {
    let (handler, events) = recorder();
    let md = node.md_bind(once(buffer), handler)?;
    let Target { process, portal, match_bits } = target;
    let (ack, source, target, offset) = (true, None, process, 0);
    node.put(Put { md, ack, source, target, portal, match_bits, offset, header_data })?;
    let acknowledged = events.wait(EventKind::Ack, timeout);
    if acknowledged.is_err() {
        // It may be gone already.
        let _ = node.md_unlink(md);
    }
    acknowledged
}

/// Fetches from `target` into `buffer` and waits until it is there.
///
/// # Errors
/// Why it is not.
pub fn get(
    node: &Node,
    target: Target,
    buffer: &Buffer,
    timeout: Duration,
) -> Result<Event, Errno> {
    let (handler, events) = recorder();
    let md = node.md_bind(once(buffer), handler)?;
    let Target { process, portal, match_bits } = target;
    node.get(Get { md, source: None, target: process, portal, match_bits, offset: 0 })?;
    let replied = events.wait(EventKind::Reply, timeout);
    if replied.is_err() {
        // It may be gone already.
        let _ = node.md_unlink(md);
    }
    replied
}

/// Fetches what a node says of itself.
///
/// # Errors
/// Why it cannot be had; EPROTO if it is not understood.
pub fn ping_info(node: &Node, process: ProcessId, timeout: Duration) -> Result<PingInfo, Errno> {
    let buffer = node.allocate(PING_ROOM);
    let event = get(node, Target::ping(process), &buffer, timeout)?;
    let bytes = buffer.to_vec(0, event.mlength as usize);
    Ok(PingInfo::decode(&bytes).map_err(|_| Errno::EPROTO)?.info)
}

/// Opens all of `buffer` to everybody, for operations as `options` say.
///
/// # Errors
/// As [`Node::me_attach`] and [`Node::md_attach`].
pub fn offer(
    node: &Node,
    (portal, match_bits): (u32, u64),
    buffer: &Buffer,
    options: MdOptions,
    handler: Arc<dyn Handler>,
) -> Result<(MeId, MdId), Errno> {
    let me = Me {
        match_id: ProcessId::ANY,
        match_bits,
        ignore_bits: 0,
        unlink: true,
        position: MePosition::After,
    };
    let me = node.me_attach(portal, me)?;
    let md = node.md_attach(me, Md { options, ..whole(buffer) }, handler)?;
    Ok((me, md))
}

/// Returns a descriptor of all of `buffer` that lasts until it is unlinked.
pub fn whole(buffer: &Buffer) -> Md {
    Md {
        buffer: buffer.id(),
        offset: 0,
        len: buffer.len() as u64,
        threshold: None,
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: false,
        user: 0,
    }
}

/// Returns a descriptor for one request and one response.
fn once(buffer: &Buffer) -> Md {
    Md { threshold: Some(2), auto_unlink: true, ..whole(buffer) }
}

/// Returns `len` bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| ((n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Returns the names of the features that a node says it has.
pub fn feature_names(features: Features) -> String {
    const NAMES: [(Features, &str); 8] = [
        (Features::BASE, "base"),
        (Features::NI_STATUS, "NI status"),
        (Features::RTE_DISABLED, "no router"),
        (Features::MULTI_RAIL, "multi-rail"),
        (Features::DISCOVERY, "discovery"),
        (Features::LARGE_ADDR, "large NIDs"),
        (Features::PRIMARY_LARGE, "primary NID is large"),
        (Features::METADATA, "metadata"),
    ];
    let names = NAMES.iter().filter(|(bit, _)| features.has(*bit)).map(|(_, name)| *name);
    names.collect::<Vec<_>>().join(", ")
}

/// The sink of a ping: more than any node has to say.
const PING_ROOM: usize = PingInfo::SIZE_MAX as usize;
