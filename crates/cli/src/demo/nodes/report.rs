//! The tables of the measurement and of the state of the nodes after it.

use std::io::{self, Write};

use fulmar_text::{Table, bytes, duration, grouped, left, right, significant};

use super::Host;
use super::load::Measurement;
use crate::demo::indented;
use crate::interop::connection_kind;

pub(super) fn traffic(out: &mut dyn Write, all: &[Measurement]) -> io::Result<()> {
    let mut table = Table::new([
        left("work"),
        right("in flight"),
        right("MB/s"),
        right("Gbit/s"),
        right("messages/s"),
        right("mean"),
        right("p50"),
        right("p99"),
        right("messages"),
    ]);
    for measured in all {
        let rate = measured.bytes_per_second();
        table.row([
            measured.work.name.to_owned(),
            measured.work.window.to_string(),
            significant(rate / 1e6, 3),
            format!("{:.2}", rate * 8.0 / 1e9),
            grouped(measured.operations_per_second() as u64),
            duration(measured.mean()),
            duration(measured.percentile(50)),
            duration(measured.percentile(99)),
            grouped(measured.latencies.len() as u64),
        ]);
    }
    writeln!(out, "{}", indented(&table))
}

pub(super) fn copies(out: &mut dyn Write, all: &[Measurement]) -> io::Result<()> {
    let mut table = Table::new([
        left("payload received"),
        right("bytes"),
        right("copied once"),
        left("method"),
    ]);
    for measured in all {
        let share = measured.copied_once as f64 / measured.received.max(1) as f64;
        let how = match share {
            0.99.. => "by the kernel, from the socket to the buffer",
            _ => "read with the header, then copied to the buffer",
        };
        table.row([
            format!("{}, {} in flight", measured.work.name, measured.work.window),
            bytes(measured.received),
            format!("{:.1} %", share * 100.0),
            how.to_owned(),
        ]);
    }
    writeln!(out, "{}", indented(&table))
}

/// The credits, with the names of `lnetctl net show -v` and `lnetctl peer show -v`.
pub(super) fn credits(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut nis = Table::new([
        left("local NI"),
        right("max_ni_tx_credits"),
        right("available_tx_credits"),
        right("min_tx_credits"),
        right("peer_credits"),
    ]);
    let mut peer_nis = Table::new([
        left("at"),
        left("peer NI"),
        right("max_ni_tx_credits"),
        right("available_tx_credits"),
        right("min_tx_credits"),
        right("tx_q_num_of_buf"),
    ]);
    for Host { nid, node } in nodes {
        let (own, peers) = (node.admin().nis(), node.admin().peers());
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
    writeln!(out, "{}", indented(&nis))?;
    writeln!(out, "{}", indented(&peer_nis))?;
    writeln!(out, "  A minimum below 0 shows how many messages waited for a credit.\n")
}

pub(super) fn connections(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut table = Table::new([
        left("at"),
        left("kind"),
        right("version"),
        left("from"),
        left("to"),
        right("send buffer"),
        right("receive buffer"),
    ]);
    for Host { nid, node } in nodes {
        for conn in node.admin().connections() {
            table.row([
                nid.to_string(),
                connection_kind(conn.info.kind),
                conn.info.version.number().to_string(),
                conn.info.local.to_string(),
                conn.info.remote.to_string(),
                bytes(conn.send_buffer as u64),
                bytes(conn.receive_buffer as u64),
            ]);
        }
    }
    writeln!(out, "{}", indented(&table))
}

/// The totals of the nodes' sockets.
pub(super) fn sockets(out: &mut dyn Write, nodes: &[Host]) -> io::Result<()> {
    let mut table = Table::new([
        left("sockets of"),
        right("payload in"),
        right("payload out"),
        right("headers out"),
        right("reads"),
        right("writes"),
    ]);
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
    writeln!(out, "{}", indented(&table))
}
