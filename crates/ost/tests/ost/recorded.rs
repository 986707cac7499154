//! The requests of kernel nodes to kernel OSTs, played to ours: status, buffers, valid bits and data must
//! be those of the recorded replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{
    CONNECT_DATA, LAST_FID, OST_BODY, OST_CREATE, RESULTS, SEQ_RANGE, STATFS, TARGET_UUID,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{Obdo, ObdoFlags, OstId};
use fulmar_lustre_wire::seq::{SeqKind, SeqRange};
use fulmar_lustre_wire::{Fid, Handle, Opcode};
use fulmar_ost::{Answer, Call, Ost, Settings};
use fulmar_store::{Policy, Store};
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

use crate::rig::{self, Rig};

/// The recorded OSTs, by the sequence of their objects.
const OSTS: [(u64, u16); 3] = [(0x2_4000_0400, 0), (0x2_8000_0400, 1), (0x2_c000_0400, 2)];

fn with_calls(name: &str, check: impl FnOnce(&[Rpc<'_>])) {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    check(&Calls::of(&items).rpcs);
}

/// What is different for a reason: the recorded objects have an earlier life.
fn normalised(opcode: Opcode, request: &Obdo, body: Obdo) -> Obdo {
    let mut body = body;
    if opcode == Opcode::OST_SETATTR {
        // A kernel server describes attributes that it has not read, so they are 0.
        (body.mode, body.size, body.blocks) = (0, 0, 0);
    }
    // A kernel server keeps times of an earlier use, or says its own clock.
    let has_times = request.valid.has(Valid::FLMTIME | Valid::FLCTIME);
    if !has_times {
        (body.mtime, body.ctime) = (0, 0);
    }
    if !request.valid.has(Valid::FLATIME) {
        body.atime = 0;
    }
    if opcode == Opcode::OST_SEEK {
        // Whether allocated space without data is a hole depends on the medium.
        body.size = 0;
    }
    body
}

/// Returns the buffers of a reply with their lengths.
fn shape(reply: &Message<'_>) -> Vec<(String, usize)> {
    let name = |field: Option<&'static dyn fulmar_lustre_wire::format::Buffer>| {
        field.map_or("-", |field| field.name()).to_owned()
    };
    reply.buffers().map(|(field, bytes)| (name(field), bytes.len())).collect()
}

/// Returns the OST that a request is for; `None` if it is for another target.
fn index_of(request: &Message<'_>) -> Option<u16> {
    let body = request.get(&OST_BODY).ok().flatten()?;
    let OstId::Fid(fid) = body.id else { return None };
    OSTS.iter().find(|(seq, _)| *seq == fid.seq).map(|(_, index)| *index)
}

struct Playback {
    rigs: BTreeMap<u16, Rig>,
    connected: BTreeSet<(u16, Handle)>,
    counts: BTreeMap<String, usize>,
}

impl Playback {
    fn new() -> Self {
        Self { rigs: BTreeMap::new(), connected: BTreeSet::new(), counts: BTreeMap::new() }
    }

    /// Returns an OST that has the client with this export, and objects.
    fn rig(&mut self, index: u16, export: Handle) -> &mut Rig {
        let rig = self.rigs.entry(index).or_insert_with(|| {
            let store = Arc::new(Store::memory(b"OST", Policy::default()));
            let mut rig = Rig::on(store, Settings { index, ..Settings::default() });
            let mdt = fulmar_lustre_wire::connect::ConnectData {
                index: index.into(),
                ..rig::asked_by_mdt()
            };
            rig.connect(1, "mdt", mdt).unwrap();
            let (seq, _) = OSTS[usize::from(index)];
            let id = OstId::Fid(Fid { seq, oid: 0x60, version: 0 });
            let body = Obdo { valid: Valid::FLGROUP, id, ..Obdo::default() };
            let request = Message::request(&OST_CREATE).with(&OST_BODY, &body);
            rig.send(1, &request).unwrap();
            rig
        });
        if self.connected.insert((index, export)) {
            rig.connect(export.0, &format!("client-{:x}", export.0), rig::asked()).unwrap();
        }
        rig
    }

    fn play(&mut self, rpc: &Rpc<'_>) {
        let request = &rpc.request.message;
        let Some(index) = index_of(request) else { return };
        let opcode = request.body.opcode;
        if !Ost::OPERATIONS.contains(&opcode) {
            return;
        }
        let recorded = &rpc.reply().unwrap().message;
        let asked = request.require(&OST_BODY).unwrap();
        let export = request.body.handle;
        let rig = self.rig(index, export);
        let call =
            Call { export, nid: Nid::LOOPBACK, xid: rpc.xid, now: rig::NOW, message: request };
        let bulk: Vec<u8> = rpc.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect();
        let is_short = asked.flags.flags.has(ObdoFlags::SHORT_IO);
        let answer = match opcode {
            Opcode::OST_WRITE if !is_short => rig.write_call(&call, &bulk).unwrap(),
            Opcode::OST_READ if !is_short => {
                let (answer, data) = rig.read_call(&call).unwrap();
                assert!(data == bulk, "the data of {:#x}", rpc.xid);
                answer
            }
            _ => rig.ost.execute(&call).unwrap(),
        };
        rig.ost.check().unwrap();
        compare(rpc, &asked, recorded, &answer);
        *self.counts.entry(format!("{opcode:?}")).or_default() += 1;
    }
}

fn compare(rpc: &Rpc<'_>, asked: &Obdo, recorded: &Message<'_>, answer: &Answer) {
    let (opcode, xid, reply) = (recorded.body.opcode, rpc.xid, &answer.reply);
    assert_eq!(reply.body.status, recorded.body.status, "{opcode:?} {xid:#x}");
    assert_eq!(shape(reply), shape(recorded), "{opcode:?} {xid:#x}");
    assert_eq!(reply.body.transno != 0, recorded.body.transno != 0, "{opcode:?} {xid:#x}");
    // A kernel server has made it durable before.
    if opcode == Opcode::OST_WRITE {
        let is_durable = recorded.body.last_committed >= recorded.body.transno;
        assert_eq!(answer.durable.is_some(), is_durable, "{xid:#x}");
    }
    let body =
        |message: &Message<'_>| normalised(opcode, asked, message.require(&OST_BODY).unwrap());
    assert_eq!(body(reply), body(recorded), "{opcode:?} {xid:#x}");
    for (own, theirs) in reply.buffers().zip(recorded.buffers()) {
        if own.0.is_some_and(|field| field.name() == "short_io") {
            assert!(own.1 == theirs.1, "the data of {xid:#x}");
        }
    }
    assert_eq!(reply.get(&RESULTS), recorded.get(&RESULTS), "{xid:#x}");
}

fn counts(played: &Playback) -> Vec<(&str, usize)> {
    played.counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn the_data_operations_of_a_kernel_client_are_answered_as_by_a_kernel_ost() {
    with_calls("data", |rpcs| {
        let mut played = Playback::new();
        rpcs.iter().for_each(|rpc| played.play(rpc));
        let expected = [
            ("OST_FALLOCATE", 2),
            ("OST_PUNCH", 7),
            ("OST_READ", 7),
            ("OST_SEEK", 2),
            ("OST_SETATTR", 2),
            ("OST_SYNC", 11),
            ("OST_WRITE", 11),
        ];
        assert_eq!(counts(&played), expected);
    });
}

#[test]
fn two_kernel_clients_share_objects() {
    with_calls("contend", |rpcs| {
        let mut played = Playback::new();
        rpcs.iter().for_each(|rpc| played.play(rpc));
        assert_eq!(counts(&played), [("OST_READ", 5), ("OST_WRITE", 3)]);
    });
}

/// Returns the reply of an OST to a recorded request.
fn answer(rig: &Rig, rpc: &Rpc<'_>, export: u64) -> Answer {
    let message = &rpc.request.message;
    rig.ost
        .execute(&Call {
            export: Handle(export),
            nid: Nid::LOOPBACK,
            xid: rpc.xid,
            now: rig::NOW,
            message,
        })
        .unwrap()
}

#[test]
fn a_kernel_mdt_takes_a_new_ost_into_use() {
    with_calls("ost-join", |rpcs| {
        let settings = Settings { index: 2, ..Settings::default() };
        let store = Arc::new(Store::memory(b"OST", Policy::default()));
        let rig = Rig::on(store, settings);
        assert!(rig.ost.needs_sequences().unwrap());
        // What MDT0000 has given to the recorded one.
        let (start, end, kind) = (0x2_c000_0400, 0x3_0000_0400, SeqKind::OST);
        assert!(rig.ost.add_sequences(SeqRange { start, end, index: 2, kind }).unwrap());
        let mut seen = vec![];
        let is_ours = |rpc: &&Rpc<'_>| {
            rpc.server.to_string() == "10.99.0.3@tcp" && {
                let opcode = rpc.request.message.body.opcode;
                opcode == Opcode::OST_CONNECT || Ost::OPERATIONS.contains(&opcode)
            }
        };
        for rpc in rpcs.iter().filter(is_ours) {
            let (request, recorded) = (&rpc.request.message, &rpc.reply().unwrap().message);
            let opcode = request.body.opcode;
            // The MDT and a client.
            let export = 1 + u64::from(rpc.client.to_string() == "10.99.0.1@tcp");
            let own = if opcode == Opcode::OST_WRITE {
                let bulk: Vec<u8> = rpc.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect();
                let (export, xid) = (Handle(export), rpc.xid);
                rig.write_call(
                    &Call { export, nid: Nid::LOOPBACK, xid, now: rig::NOW, message: request },
                    &bulk,
                )
                .unwrap()
            } else {
                answer(&rig, rpc, export)
            };
            rig.ost.check().unwrap();
            let mine = &own.reply;
            assert_eq!(mine.body.status, recorded.body.status, "{opcode:?}");
            assert_eq!(shape(mine), shape(recorded), "{opcode:?}");
            match opcode {
                Opcode::OST_CONNECT => check_connect(mine, recorded),
                Opcode::SEQ_QUERY => {
                    assert_eq!(mine.require(&SEQ_RANGE), recorded.require(&SEQ_RANGE));
                }
                Opcode::OST_GET_INFO => {
                    assert_eq!(mine.require(&LAST_FID), recorded.require(&LAST_FID));
                }
                Opcode::OST_STATFS => {
                    let [mine, theirs] = [mine, recorded].map(|one| one.require(&STATFS).unwrap());
                    assert_eq!(mine.block_size, theirs.block_size);
                    assert_eq!(
                        (mine.name_max, mine.max_bytes),
                        (theirs.name_max, theirs.max_bytes)
                    );
                    assert_eq!(mine.state, theirs.state);
                }
                _ => compare(rpc, &request.require(&OST_BODY).unwrap(), recorded, &own),
            }
            seen.push(opcode);
        }
        let count = |opcode| seen.iter().filter(|one| **one == opcode).count();
        let counts = [
            (Opcode::OST_CONNECT, 2),
            (Opcode::OST_CREATE, 2),
            (Opcode::OST_STATFS, 4),
            (Opcode::OST_PUNCH, 1),
            (Opcode::OST_WRITE, 1),
            (Opcode::OST_DESTROY, 1),
            (Opcode::SEQ_QUERY, 1),
        ];
        assert_eq!(counts.map(|(opcode, _)| count(opcode)), counts.map(|(_, count)| count));
    });
}

/// Compares what is granted. The checksums are those that the machine computes fast.
fn check_connect(own: &Message<'_>, recorded: &Message<'_>) {
    let [own, theirs] = [own, recorded].map(|one| one.require(&CONNECT_DATA).unwrap());
    assert_eq!(own.flags, theirs.flags);
    let normalised = fulmar_lustre_wire::connect::ConnectData {
        version: theirs.version,
        checksums: theirs.checksums,
        ..own
    };
    assert_eq!(normalised, theirs);
    if own.flags.has(ConnectFlags::CKSUM) {
        assert!(own.checksums.has(theirs.checksums));
    }
}

#[test]
fn a_kernel_client_connects_and_leaves() {
    with_calls("mount", |rpcs| {
        let mut rigs: Vec<Rig> = (0..2)
            .map(|index| {
                let store = Arc::new(Store::memory(b"OST", Policy::default()));
                Rig::on(store, Settings { index, ..Settings::default() })
            })
            .collect();
        let mut seen = 0;
        for rpc in rpcs {
            let (request, recorded) = (&rpc.request.message, &rpc.reply().unwrap().message);
            match request.body.opcode {
                Opcode::OST_CONNECT => {
                    let target = request.require(&TARGET_UUID).unwrap().to_string();
                    let rig = &mut rigs[usize::from(target == "lv-OST0001_UUID")];
                    check_connect(&answer(rig, rpc, recorded.body.handle.0).reply, recorded);
                    assert_eq!(rig.ost.granted().granted, 8_437_760);
                    rig.ost.check().unwrap();
                }
                Opcode::OST_DISCONNECT => {
                    let is_second = request.body.handle == Handle(0x5b78_e991_5370_3d8c);
                    let rig = &mut rigs[usize::from(is_second)];
                    let own = answer(rig, rpc, request.body.handle.0);
                    assert_eq!(shape(&own.reply), shape(recorded));
                    assert_eq!(rig.ost.granted().granted, 0);
                    rig.ost.check().unwrap();
                    seen += 1;
                }
                _ => {}
            }
        }
        assert_eq!(seen, 2);
    });
}
