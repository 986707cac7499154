//! The requests by which kernel clients read the configuration to mount, played to our service.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{CONFIG_RESULT, LLOG_BODY, LLOG_RECORDS, NAME};
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord, Marker};
use fulmar_lustre_wire::llog::{LogBlock, LogId};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Opcode, Status, Text};
use fulmar_mgs::{Mgs, Start, Target, TargetName};
use fulmar_rpc::import::TargetKind;
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};
use fulmar_wire::Order;

/// The NID of the recorded server.
fn server() -> Nid {
    "10.99.0.2@tcp".parse().unwrap()
}

fn name(kind: TargetKind, index: u16) -> TargetName {
    TargetName { file_system: "lv".into(), kind, index }
}

/// A service with the recorded file system.
fn recorded() -> Mgs {
    let mut mgs = Mgs::default();
    for name in [name(TargetKind::Mdt, 0), name(TargetKind::Ost, 0), name(TargetKind::Ost, 1)] {
        mgs.add(1_795_184_336, &name, Target { nodes: vec![vec![server()]] }).unwrap();
    }
    mgs
}

fn with_calls(name: &str, check: impl FnOnce(&[Rpc<'_>])) {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    check(&Calls::of(&items).rpcs);
}

/// What the records say, without the times and versions of markers, and what follows a text in its
/// field: a kernel node does not always clear it.
fn contents(block: &LogBlock) -> Vec<Config> {
    let config = |body: &[u8]| {
        let record = ConfigRecord::decode(body, Order::Little).unwrap();
        match Config::of(&record, Order::Little) {
            Config::Marker { device, marker } => {
                let (target, comment) = (clean(marker.target), clean(marker.comment));
                let marker = Marker { created: 0, version: 0, target, comment, ..marker };
                Config::Marker { device, marker }
            }
            config => config,
        }
    };
    block.records.iter().map(|record| config(&record.body.0)).collect()
}

fn clean<const N: usize>(text: Text<N>) -> Text<N> {
    Text::new(&text.to_string()).unwrap()
}

#[test]
fn a_kernel_client_reads_the_recorded_configuration_from_our_service() {
    with_calls("mount", |rpcs| {
        let mgs = recorded();
        let mut opened: Vec<(LogId, LogId)> = Vec::new();
        let mut read = Vec::new();
        for rpc in rpcs {
            let mut request = rpc.request.message.clone();
            let recorded = &rpc.reply().unwrap().message;
            let opcode = request.body.opcode;
            if !Mgs::OPERATIONS.contains(&opcode) || opcode == Opcode::MGS_CONFIG_READ {
                continue;
            }
            // Our service has names of its own for logs.
            let mut body = request.require(&LLOG_BODY).unwrap();
            body.id = opened
                .iter()
                .find(|(theirs, _)| *theirs == body.id)
                .map_or(body.id, |(_, own)| *own);
            request = request.with(&LLOG_BODY, &body);
            let reply = mgs.execute(&request).unwrap();
            assert_eq!(reply.body.status, recorded.body.status, "{opcode:?}");
            match opcode {
                Opcode::LLOG_CREATE if reply.body.status == Status::OK => {
                    let [theirs, own] = [recorded, &reply].map(id);
                    opened.push((theirs, own));
                }
                Opcode::LLOG_NEXT_BLOCK => {
                    let [theirs, own] = [recorded, &reply].map(|reply| {
                        let block = reply.require(&LLOG_RECORDS).unwrap();
                        assert_eq!(block.to_bytes().len(), 8192);
                        let body = reply.require(&LLOG_BODY).unwrap();
                        let body = (body.index, body.saved_index, body.offset, body.len);
                        (contents(&block), body)
                    });
                    assert_eq!(own, theirs);
                    read.push(own.1);
                }
                _ => {}
            }
        }
        assert_eq!((opened.len(), read), (2, vec![(1, 29, 12888, 8192), (29, 29, 12888, 8192)]));
    });
}

fn id(reply: &Message<'_>) -> LogId {
    reply.require(&LLOG_BODY).unwrap().id
}

#[test]
fn headers_are_those_of_the_recorded_service() {
    with_calls("mount", |rpcs| {
        let mgs = recorded();
        let ours = ["lv-client", "params"].map(|name| mgs.log_named(name).unwrap());
        let read =
            rpcs.iter().filter(|rpc| rpc.request.message.body.opcode == Opcode::LLOG_READ_HEADER);
        let headers: Vec<_> = read
            .map(|rpc| {
                rpc.reply()
                    .unwrap()
                    .message
                    .bytes(&fulmar_lustre_wire::format::LLOG_HEADER)
                    .unwrap()
                    .to_vec()
            })
            .collect();
        assert_eq!(headers.len(), ours.len());
        for (theirs, log) in headers.iter().zip(ours) {
            let mut own = log.header().to_bytes();
            // When it was made.
            own[16..24].copy_from_slice(&theirs[16..24]);
            assert_eq!(&own, theirs);
        }
    });
}

#[test]
fn a_kernel_client_reads_where_targets_have_started() {
    with_calls("mount-fresh", |rpcs| {
        let mut mgs = Mgs::default();
        let table = mgs.table("lv");
        let nids = vec![server()];
        let start = |kind, index, instance| Start { kind, index, instance, nids: nids.clone() };
        // Versions count from 3 on.
        (0..8).for_each(|instance| table.started(start(TargetKind::Mdt, 0, instance)));
        table.started(start(TargetKind::Mdt, 0, 3));
        table.started(start(TargetKind::Ost, 0, 3));
        table.started(start(TargetKind::Ost, 1, 2));
        let is_read = |rpc: &&Rpc<'_>| rpc.request.message.body.opcode == Opcode::MGS_CONFIG_READ;
        let read = rpcs.iter().find(is_read).unwrap();
        let (reply, bulk) = mgs.read_config(&read.request.message).unwrap();
        let recorded = &read.reply().unwrap().message;
        assert_eq!(reply.require(&CONFIG_RESULT), recorded.require(&CONFIG_RESULT));
        assert_eq!(
            bulk,
            read.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect::<Vec<u8>>()
        );
        assert_eq!(Mgs::default().read_config(&read.request.message).unwrap_err(), Errno::ENOENT);
    });
}

#[test]
fn what_is_not_there_is_refused() {
    with_calls("mount", |rpcs| {
        let mgs = Mgs::default();
        for rpc in rpcs {
            let request = &rpc.request.message;
            let result = mgs.execute(request);
            match request.body.opcode {
                Opcode::LLOG_CREATE => {
                    assert!(request.require(&NAME).is_ok());
                    assert_eq!(result.unwrap().body.status.errno(), Some(Errno::ENOENT));
                }
                Opcode::LLOG_READ_HEADER | Opcode::LLOG_NEXT_BLOCK => {
                    assert_eq!(result.unwrap_err(), Errno::ENOENT);
                }
                _ => {}
            }
        }
    });
}
