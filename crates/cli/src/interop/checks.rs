//! The checks, in order. Each returns its evidence, whether it passes or fails.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_base::{ConnId, Errno};
use fulmar_lnet::EventKind;
use fulmar_lnet::views::{PeerNi, Traffic};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{PORTALS, ProcessId};
use fulmar_net::exchange::{Exchange, Target, feature_names};
use fulmar_net::{Admin, Buffer, ConnDetails};
use fulmar_text::duration;
use fulmar_wire::Order;

use super::connection_kind as kind;
use super::run::diagnose;

/// The node of this host, and the node under test.
pub(super) struct Probe {
    pub(super) node: Admin,
    pub(super) exchange: Exchange,
    pub(super) peer: ProcessId,
    /// Address on which it listens.
    pub(super) remote: SocketAddr,
    pub(super) timeout: Duration,
}

/// Returns the evidence: `Ok` if the check passes, `Err` if it fails.
type Check = fn(&Probe) -> Result<String, String>;

/// Every check with its name.
pub(super) const CHECKS: [(&str, Check); 13] = [
    ("TCP connection and hello", hello),
    ("all kinds of connections", connections),
    ("ping", ping),
    ("ping info by a direct GET", info),
    ("GET into 16 bytes", |probe| short_sink(probe, 16)),
    ("GET into 48 bytes", |probe| short_sink(probe, 48)),
    ("discovery", discovery),
    ("push to the peer is acknowledged", our_push),
    ("the peer pushes to this node", their_push),
    ("PUT with ACK", put_with_ack),
    ("PUT that matches nothing is dropped", unmatched_put),
    ("the connections are still open", survival),
    ("100 pings", latency),
];

impl Probe {
    fn ping(&self) -> Result<fulmar_lnet::PingReply, Errno> {
        self.node.ping(self.peer, None, self.timeout)
    }

    fn connections(&self) -> Vec<ConnDetails> {
        let all = self.node.connections().into_iter();
        all.filter(|conn| conn.info.peer.nid == self.peer.nid).collect()
    }

    /// Returns the peer NI with this `nid`.
    fn peer_ni(&self) -> Option<PeerNi> {
        self.node.peers().into_iter().flat_map(|peer| peer.nis).find(|ni| ni.nid == self.peer.nid)
    }

    fn traffic(&self) -> Traffic {
        self.peer_ni().map(|ni| ni.traffic).unwrap_or_default()
    }

    /// Waits until `done`; returns whether it became true in time.
    fn wait(&self, timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        loop {
            if done() {
                return true;
            }
            if begun.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn hello(probe: &Probe) -> Result<String, String> {
    probe.ping().map_err(|errno| diagnose(probe, errno))?;
    let connections = probe.connections();
    let first = connections.first().ok_or("the peer answered, but there is no connection")?;
    let (info, port) = (&first.info, first.info.local.port());
    let note = if port > PRIVILEGED_MAX { ", which is not privileged" } else { "" };
    Ok(format!(
        "socklnd version {}, {} first, from port {port}{note}",
        info.version.number(),
        kind(info.kind)
    ))
}

fn connections(probe: &Probe) -> Result<String, String> {
    let wanted = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];
    let have =
        || -> BTreeSet<u32> { probe.connections().iter().map(|conn| conn.info.kind.0).collect() };
    let all = probe.wait(probe.timeout, || wanted.iter().all(|kind| have().contains(&kind.0)));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for conn in probe.connections() {
        let is_ours = conn.info.remote.port() == probe.remote.port();
        if is_ours { &mut ours } else { &mut theirs }.push(kind(conn.info.kind));
    }
    let opened = [("this node", ours), ("the peer", theirs)].into_iter();
    let opened = opened.filter(|(_, kinds)| !kinds.is_empty());
    let list: Vec<String> =
        opened.map(|(who, kinds)| format!("{who} opened {}", kinds.join(", "))).collect();
    let list = list.join("; ");
    if all { Ok(list) } else { Err(format!("control, bulk in and bulk out are required: {list}")) }
}

fn ping(probe: &Probe) -> Result<String, String> {
    let reply = probe.ping().map_err(unanswered)?;
    let nids: Vec<String> = reply.nids.iter().map(ToString::to_string).collect();
    let text = format!("process {} with NIDs {}", reply.pid, nids.join(" "));
    if reply.nids.contains(&probe.peer.nid) {
        Ok(text)
    } else {
        Err(format!("{text}: {} is not among them", probe.peer.nid))
    }
}

fn info(probe: &Probe) -> Result<String, String> {
    let info = probe.exchange.ping_info(probe.peer, probe.timeout).map_err(unanswered)?;
    Ok(format!(
        "features {:#x} ({}), sequence {}, {} NIDs",
        info.features.0,
        feature_names(info.features),
        info.sequence,
        info.entries.len()
    ))
}

/// A GET into a short buffer returns as many bytes as fit, the same as a long GET returns.
fn short_sink(probe: &Probe, room: u32) -> Result<String, String> {
    let fetch = |room: u32| {
        let buffer = Buffer::new(room as usize);
        let event = probe.exchange.get(Target::ping(probe.peer), &buffer, probe.timeout);
        event.map(|event| buffer.to_vec(0, event.mlength as usize)).map_err(unanswered)
    };
    let whole = fetch(PingInfo::SIZE_MIN)?;
    let part = fetch(room)?;
    let expected = (room as usize).min(whole.len());
    let text = format!("{} bytes of {}", part.len(), whole.len());
    if part.len() != expected {
        return Err(format!("{text}, but {expected} were expected"));
    }
    if part != whole[..expected] {
        return Err(format!("{text}, but the bytes differ from those of a longer GET"));
    }
    Ok(text)
}

fn discovery(probe: &Probe) -> Result<String, String> {
    let found = probe.node.discover(probe.peer.nid, true).map_err(unanswered)?;
    let nids: Vec<String> = found.nids.iter().map(ToString::to_string).collect();
    let text = format!(
        "primary NID {}, NIDs {}, {}multi-rail",
        found.primary,
        nids.join(" "),
        if found.multi_rail { "" } else { "not " }
    );
    if found.nids.contains(&probe.peer.nid) { Ok(text) } else { Err(text) }
}

fn our_push(probe: &Probe) -> Result<String, String> {
    let pushed = || probe.traffic().put_ack.samples > 0;
    if probe.wait(probe.timeout, pushed) {
        let took = Duration::from_nanos(probe.traffic().put_ack.max_nsec);
        return Ok(format!("the ACK came after {}", duration(took)));
    }
    Err(match probe.traffic().sent.put {
        0 => "this node did not push: the peer does not offer discovery and multi-rail".into(),
        count => format!("{count} pushes were sent, but no ACK arrived"),
    })
}

fn their_push(probe: &Probe) -> Result<String, String> {
    let received = || probe.traffic().received.put;
    let text = || format!("{} received, so the peer knows this node as multi-rail", received());
    if probe.wait(PUSH_TIMEOUT, || received() > 0) {
        return Ok(text());
    }
    // A node pushes its list once, perhaps in an earlier run. It forgets that when its peer turns
    // discovery off.
    set_discovery(probe, false)?;
    probe.node.discover(probe.peer.nid, true).map_err(unanswered)?;
    set_discovery(probe, true)?;
    probe.node.discover(probe.peer.nid, true).map_err(unanswered)?;
    if probe.wait(probe.timeout, || received() > 0) {
        return Ok(format!("{}, after discovery of this node was switched off and on", text()));
    }
    let served = probe.traffic().received.get;
    Err(format!("no push arrived, but {served} pings. Is discovery switched on at the peer?"))
}

fn set_discovery(probe: &Probe, on: bool) -> Result<(), String> {
    let globals = fulmar_lnet::Globals { discovery: on, ..probe.node.globals() };
    probe.node.set_globals(globals).map_err(|errno| format!("cannot switch discovery: {errno}"))
}

/// The PUT carries the data of a push, so that nothing changes at the peer.
fn put_with_ack(probe: &Probe) -> Result<String, String> {
    let info = probe.node.ping_info();
    let mut payload = Vec::new();
    info.encode(Order::Little, &mut payload);
    let buffer = Buffer::new(payload.len());
    buffer.write_at(0, &payload);
    let ack = probe.exchange.put(Target::ping(probe.peer), &buffer, 0, probe.timeout);
    let ack = ack.map_err(unanswered)?;
    let text = format!("{} of {} bytes accepted", ack.mlength, payload.len());
    if ack.mlength as usize == payload.len() { Ok(text) } else { Err(text) }
}

fn unmatched_put(probe: &Probe) -> Result<String, String> {
    let target = Target { process: probe.peer, portal: UNUSED_PORTAL, match_bits: UNUSED_BITS };
    let events = probe.exchange.begin_put(target, Buffer::new(64), 0);
    let events = events.map_err(|errno| format!("this node refused: {errno}"))?;
    let sent = events.wait(EventKind::Send, probe.timeout);
    let answer = events.wait(EventKind::Ack, SILENCE);
    // Unlinking it ends the wait for the response.
    events.unlink();
    match (sent, answer) {
        (Err(errno), _) => Err(format!("it was not sent: {errno}")),
        (Ok(_), Ok(_)) => Err(format!("portal {UNUSED_PORTAL} has acknowledged it")),
        (Ok(_), Err(Errno::ETIMEDOUT)) => {
            Ok(format!("portal {UNUSED_PORTAL}: sent, and no ACK within {}", duration(SILENCE)))
        }
        (Ok(_), Err(errno)) => Err(format!("sent, but then {errno}")),
    }
}

fn survival(probe: &Probe) -> Result<String, String> {
    let ids =
        || -> BTreeSet<ConnId> { probe.connections().iter().map(|conn| conn.info.conn).collect() };
    let before = ids();
    probe.ping().map_err(unanswered)?;
    let oldest = probe.connections().iter().map(|conn| conn.info.opened).min();
    let age = oldest.map_or(Duration::ZERO, |opened| probe.node.now().since(opened));
    let text = format!("{} connections, the oldest open for {}", before.len(), duration(age));
    let survived = !before.is_empty() && before == ids() && age >= SILENCE;
    if survived { Ok(text) } else { Err(text) }
}

fn latency(probe: &Probe) -> Result<String, String> {
    let mut times = Vec::new();
    for number in 1..=PINGS {
        let begun = Instant::now();
        probe.ping().map_err(|errno| format!("ping {number}: {}", unanswered(errno)))?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let [min, median, max] = [0, PINGS / 2, PINGS - 1].map(|at| duration(times[at]));
    Ok(format!("min {min}, median {median}, max {max}"))
}

fn unanswered(errno: Errno) -> String {
    match errno {
        Errno::ETIMEDOUT => "no answer in time".to_owned(),
        errno => errno.to_string(),
    }
}

/// Highest source port that is privileged.
const PRIVILEGED_MAX: u16 = 1023;
const PINGS: usize = 100;
/// The last portal, which Lustre does not use.
const UNUSED_PORTAL: u32 = PORTALS - 1;
const UNUSED_BITS: u64 = 0x6675_6c6d_6172_2121;
/// How long to wait for an answer that must not arrive.
const SILENCE: Duration = Duration::from_secs(2);
/// Timeout of the push of the peer.
const PUSH_TIMEOUT: Duration = Duration::from_secs(3);
