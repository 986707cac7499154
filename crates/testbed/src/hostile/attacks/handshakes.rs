//! Connections that are not completed, and too many that are.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::socklnd::ConnKind;

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::{Line, handshake};

/// Half-open handshakes at once.
const HALF_OPEN: usize = 4400;
const KINDS: [ConnKind; 3] = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];

/// Thousands of connections without a hello, from as many addresses. The oldest are replaced.
pub(super) fn half_open(attacker: &mut Attacker, addresses: u64) -> io::Result<()> {
    let mut open: Vec<TcpStream> = Vec::new();
    let mut next = 0;
    while attacker.goes_on() {
        next += 1;
        let identity = next as u64 % addresses;
        // An address has 1,000 privileged ports.
        let dialled = match next % 4 {
            0 => attacker.dial(identity),
            _ => attacker.dial_unprivileged(identity),
        };
        let Ok(mut stream) = dialled else {
            attacker.rest();
            continue;
        };
        let bytes = handshake(attacker.identity(identity), attacker.target, KINDS[0], 1);
        let len = attacker.rng.below(bytes.len() as u64) as usize;
        let _ = stream.write_all(&bytes[..len]);
        if open.len() < HALF_OPEN {
            open.push(stream)
        } else {
            attacker.ready();
            open[next % HALF_OPEN] = stream;
        }
        if next > 256 {
            attacker.ready();
        }
    }
    Ok(())
}

/// Connections that stop in the middle of a header or of a payload.
pub(super) fn half_messages(attacker: &mut Attacker) -> io::Result<()> {
    let mut open: Vec<Line> = Vec::new();
    let payload = vec![0x5a; 1 << 20];
    let mut next = 0;
    while attacker.goes_on() {
        next += 1;
        let Ok(mut line) = attacker.open(next % 20, KINDS[next as usize % 3]) else {
            attacker.rest();
            continue;
        };
        let put = forge::put(line.nid, attacker.target, 51, 1, true);
        let whole = line.encoded(fulmar_lnet_wire::socklnd::FrameHeader::lnet(), &put, &payload);
        let len = if attacker.rng.one_in(2) {
            attacker.rng.below(120)
        } else {
            attacker.rng.below(whole.len() as u64)
        };
        line.queue(&whole[..len as usize]);
        line.flush(usize::MAX);
        attacker.tally.sent += 1;
        if open.len() < 1000 {
            open.push(line)
        } else {
            open[next as usize % 1000] = line
        }
        attacker.ready();
    }
    Ok(())
}

/// Many connections that write one byte at a time, in every phase.
pub(super) fn slow(attacker: &mut Attacker) -> io::Result<()> {
    const LINES: u64 = 200;
    let mut raw: Vec<(TcpStream, Vec<u8>, usize)> = Vec::new();
    let mut open: Vec<Line> = Vec::new();
    for n in 0..LINES {
        if !attacker.goes_on() {
            return Ok(());
        }
        let identity = n % 40;
        if let Ok(stream) = attacker.dial(identity) {
            let nid = attacker.identity(identity);
            raw.push((stream, handshake(nid, attacker.target, KINDS[0], 1), 0));
        }
        if let Ok(mut line) = attacker.open(identity, KINDS[n as usize % 3]) {
            let get = forge::ping(line.nid, attacker.target);
            (0..50).for_each(|_| line.send(&get, &[]));
            open.push(line);
        }
    }
    attacker.ready();
    while attacker.goes_on() {
        let begun = Instant::now();
        for (stream, bytes, at) in &mut raw {
            if let Some(byte) = bytes.get(*at) {
                let _ = stream.write_all(&[*byte]);
                *at += 1;
            }
        }
        for line in &mut open {
            line.flush(1);
            line.read(1);
            attacker.tally.sent += 1;
        }
        attacker.wait(Duration::from_secs(1).saturating_sub(begun.elapsed()));
    }
    Ok(())
}

/// Connections that are opened with hellos and closed at once.
pub(super) fn churn(attacker: &mut Attacker) -> io::Result<()> {
    let mut next = 0;
    while attacker.goes_on() {
        next += 1;
        if let Ok(mut line) = attacker.open(next % 20, KINDS[next as usize % 3])
            && attacker.rng.one_in(2)
        {
            line.send(&forge::ping(line.nid, attacker.target), &[]);
            line.flush(usize::MAX);
            attacker.tally.sent += 1;
        }
        attacker.ready();
    }
    Ok(())
}

/// Hundreds of connections of the same kind by one node, whose incarnation changes now and then.
pub(super) fn races(attacker: &mut Attacker) -> io::Result<()> {
    let mut open: Vec<Line> = Vec::new();
    let mut incarnation = 1;
    while attacker.goes_on() {
        if attacker.rng.one_in(200) {
            incarnation += 1;
        }
        let identity = attacker.rng.below(3);
        let kind = KINDS[attacker.rng.below(3) as usize];
        let nid = attacker.identity(identity);
        match attacker.open_as(identity, nid, kind, incarnation) {
            Ok(mut line) => {
                line.send(&forge::ping(nid, attacker.target), &[]);
                line.flush(usize::MAX);
                attacker.tally.sent += 1;
                open.push(line);
            }
            Err(_) => attacker.rest(),
        }
        for line in &mut open {
            line.read(4096);
            attacker.take(line, None);
        }
        open.retain(|line| !line.is_closed());
        if open.len() > 600 {
            let at = attacker.rng.below(open.len() as u64) as usize;
            open.swap_remove(at);
        }
        attacker.ready();
    }
    Ok(())
}

/// As many open connections as the node takes, of nodes that say nothing more, perhaps after a ping.
pub(super) fn descriptors(attacker: &mut Attacker, pings: bool) -> io::Result<()> {
    let mut open: Vec<Line> = Vec::new();
    let mut half: Vec<TcpStream> = Vec::new();
    let mut next = 0;
    while attacker.goes_on() {
        next += 1;
        let identity = next % 200;
        if open.len() < 1000
            && let Ok(mut line) = attacker.open(identity, KINDS[next as usize % 3])
        {
            if pings {
                line.send(&forge::ping(line.nid, attacker.target), &[]);
                line.flush(usize::MAX);
                attacker.tally.sent += 1;
            }
            open.push(line);
        } else if let Ok(stream) = attacker.dial_unprivileged(identity) {
            half.push(stream);
        }
        if half.len() > 500 {
            half.clear();
        }
        for line in &mut open {
            line.read(4096);
        }
        open.retain(|line| !line.is_closed());
        if next > 50 {
            attacker.ready();
        }
    }
    Ok(())
}
