//! The counters of nodes, compared with the traces. Spec: lnet-selftest §12.

use fulmar_base::Time;
use fulmar_lnet_wire::header::Body as Lnet;
use fulmar_lnet_wire::selftest::{Body, LnetCounters, RpcCounters, StatReply};

use super::{messages, node, rpcs};
use crate::traces::{Link, load};

/// Returns the answers of a trace with their nodes and the times of the queries.
fn answers(links: &[Link]) -> Vec<(u8, Time, StatReply)> {
    let rpcs = rpcs(links);
    let answers = rpcs.iter().filter_map(|rpc| match rpc.reply.body {
        Body::StatReply(reply) => {
            Some((node(rpc.reply.frame.hop().0), rpc.request.frame.time, reply))
        }
        _ => None,
    });
    answers.collect()
}

#[test]
fn a_server_counts_its_rpcs() {
    let links = load("selftest");
    let answers = answers(&links);
    let [(3, _, first), ..] = answers[..] else { panic!("{answers:?}") };
    let rpc = RpcCounters {
        rpcs_received: 1 + 4 + 12 + 18 + 1,
        bulk_get: 8 * 4096 + 2 * (1 << 20),
        bulk_put: 8 * 65_536,
        ..RpcCounters::default()
    };
    assert_eq!(first.rpc, rpc);
    let lnet = LnetCounters {
        msgs_max: 5,
        send_count: 35 + 10 + 8 + 5,
        recv_count: 36 + 10 + 5,
        send_length: 35 * 160 + rpc.bulk_put + 4 * 48,
        recv_length: 36 * 160 + rpc.bulk_get + 48,
        ..LnetCounters::default()
    };
    assert_eq!(first.lnet, lnet);
    assert_eq!(first.framework.running_ms, 3337);
    for (further, (_, _, answer)) in (0..).zip(&answers) {
        assert_eq!(answer.rpc.rpcs_received, 36 + further);
        assert_eq!(answer.lnet.send_count, 58 + further);
        assert_eq!(answer.lnet.recv_count, 51 + further);
        assert_eq!(answer.lnet.send_length, 530_080 + 160 * u64::from(further));
        assert_eq!(answer.lnet.recv_length, 2_135_728 + 160 * u64::from(further));
    }
    assert_eq!(answers.len(), 4);
}

/// Counts the messages and bytes that a node sent and received up to a time.
fn shown(links: &[Link], of: u8, until: Time) -> [u64; 4] {
    let [mut sent, mut received, mut sent_bytes, mut received_bytes] = [0; 4];
    for (frame, header, data) in messages(links) {
        if frame.time > until {
            break;
        }
        let len = match header.body {
            Lnet::Put { .. } | Lnet::Reply { .. } => data.len() as u64,
            _ => 0,
        };
        let (from, to) = frame.hop();
        if node(from) == of {
            (sent, sent_bytes) = (sent + 1, sent_bytes + len);
        }
        if node(to) == of {
            (received, received_bytes) = (received + 1, received_bytes + len);
        }
    }
    [sent, received, sent_bytes, received_bytes]
}

#[test]
fn nodes_count_every_message() {
    let links = load("selftest-remote");
    let answers = answers(&links);
    assert_eq!(answers.len(), 6);
    for (of, until, StatReply { lnet, .. }) in &answers {
        let counted =
            [lnet.send_count.into(), lnet.recv_count.into(), lnet.send_length, lnet.recv_length];
        assert_eq!(counted, shown(&links, *of, *until), "node {of}");
    }
    let first = |of| answers.iter().find(|(node, ..)| *node == of).expect("it answers").2;
    let client = first(3);
    assert_eq!([client.lnet.send_count, client.lnet.recv_count], [40, 44]);
    assert_eq!([client.lnet.send_length, client.lnet.recv_length], [53_296, 53_492]);
    let rpc =
        RpcCounters { rpcs_sent: 19, rpcs_received: 7, bulk_get: 3 * 12, ..RpcCounters::default() };
    assert_eq!(client.rpc, rpc);
    let server = first(4);
    assert_eq!([server.lnet.send_count, server.lnet.recv_count], [38, 36]);
    assert_eq!([server.lnet.send_length, server.lnet.recv_length], [53_024, 53_088]);
    let rpc = RpcCounters {
        rpcs_received: 24,
        bulk_get: 49_152,
        bulk_put: 49_152,
        ..RpcCounters::default()
    };
    assert_eq!(server.rpc, rpc);
}

#[test]
fn error_counters_are_zero() {
    for name in super::NAMES {
        for (of, _, StatReply { framework, rpc, .. }) in answers(&load(name)) {
            let framework = [
                framework.active_batches,
                framework.zombie_sessions,
                framework.brw_errors,
                framework.ping_errors,
            ];
            assert_eq!(framework, [0; 4], "{name}: node {of}");
            assert_eq!(
                [rpc.errors, rpc.rpcs_dropped, rpc.rpcs_expired],
                [0; 3],
                "{name}: node {of}"
            );
        }
    }
}
