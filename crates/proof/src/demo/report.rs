//! What was measured, and how the nodes look afterwards.

use std::io::{self, Write};

use super::Host;
use super::load::Measured;
use crate::text::{Table, bytes, duration, grouped, kind};

pub(super) fn traffic(out: &mut dyn Write, all: &[Measured]) -> io::Result<()> {
    let mut table = Table::new(&[
        "work",
        "under way",
        "MB/s",
        "Gb/s",
        "messages/s",
        "mean",
        "p50",
        "p99",
        "messages",
    ]);
    for measured in all {
        let rate = measured.bytes_per_second();
        table.row([
            measured.work.name.to_owned(),
            measured.work.window.to_string(),
            short(rate / 1e6),
            format!("{:.2}", rate * 8.0 / 1e9),
            grouped(measured.operations_per_second() as u64),
            duration(measured.mean()),
            duration(measured.percentile(50)),
            duration(measured.percentile(99)),
            grouped(measured.latencies.len() as u64),
        ]);
    }
    writeln!(out, "{table}")
}

pub(super) fn copies(out: &mut dyn Write, all: &[Measured]) -> io::Result<()> {
    let mut table = Table::new(&["payload received", "bytes", "copied once", "<how"]);
    for measured in all {
        let share = measured.copied_once as f64 / measured.received.max(1) as f64;
        let how = match share {
            0.99.. => "by the kernel, from the socket to its place",
            _ => "read with the header, then copied to its place",
        };
        table.row([
            format!("{}, {} under way", measured.work.name, measured.work.window),
            bytes(measured.received),
            format!("{:.1} %", share * 100.0),
            how.to_owned(),
        ]);
    }
    writeln!(out, "{table}")
}

/// The credits, under the names that `lnetctl net show -v` and `lnetctl peer show -v` have.
pub(super) fn credits(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut nis = Table::new(&[
        "local NI",
        "max_ni_tx_credits",
        "available_tx_credits",
        "min_tx_credits",
        "peer_credits",
    ]);
    let mut peer_nis = Table::new(&[
        "at",
        "<peer NI",
        "max_ni_tx_credits",
        "available_tx_credits",
        "min_tx_credits",
        "tx_q_num_of_buf",
    ]);
    for Host { nid, node } in nodes {
        let (own, peers) =
            node.with_machine(|machine| (machine.lnet().nis(), machine.lnet().peers()));
        for ni in own.into_iter().filter(|ni| !ni.nid.is_loopback()) {
            let numbers = [ni.credits_max, ni.credits, ni.credits_min];
            let peer_credits = ni.tunables.peer_credits.to_string();
            let cells = numbers.map(|number| number.to_string()).into_iter();
            nis.row(std::iter::once(ni.nid.to_string()).chain(cells).chain([peer_credits]));
        }
        for ni in peers.into_iter().flat_map(|peer| peer.nis) {
            let numbers = [ni.credits_max, ni.credits, ni.credits_min];
            let cells = numbers.map(|number| number.to_string()).into_iter();
            let names = [nid.to_string(), ni.nid.to_string()];
            peer_nis.row(names.into_iter().chain(cells).chain([ni.queued_bytes.to_string()]));
        }
    }
    writeln!(out, "{nis}")?;
    writeln!(out, "{peer_nis}")?;
    writeln!(out, "  A minimum below 0 says how many messages once waited for a credit.\n")
}

pub(super) fn connections(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut table =
        Table::new(&["at", "<kind", "version", "<from", "<to", "send buffer", "receive buffer"]);
    for Host { nid, node } in nodes {
        for conn in node.connections() {
            table.row([
                nid.to_string(),
                kind(conn.info.kind).to_owned(),
                conn.info.version.number().to_string(),
                conn.info.local.to_string(),
                conn.info.remote.to_string(),
                bytes(conn.send_buffer as u64),
                bytes(conn.receive_buffer as u64),
            ]);
        }
    }
    writeln!(out, "{table}")
}

/// What the nodes' sockets carried in all.
pub(super) fn sockets(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut table =
        Table::new(&["sockets of", "payload in", "payload out", "headers out", "reads", "writes"]);
    for Host { nid, node } in nodes {
        let io = node.io_counters();
        table.row([
            nid.to_string(),
            bytes(io.payload_bytes_direct_in + io.payload_bytes_staged_in),
            bytes(io.payload_bytes_out),
            bytes(io.head_bytes_out),
            grouped(io.reads),
            grouped(io.writes),
        ]);
    }
    writeln!(out, "{table}")
}

/// A rate with as many digits as mean something.
pub(super) fn short(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { grouped(number.round() as u64) }
}
