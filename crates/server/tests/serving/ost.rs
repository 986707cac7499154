//! An OST without an MDT: this test is its MDT.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fulmar_client::{Address, Configuration, Session};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    Format, IO_OBJECTS, NIOBUFS, OST_BODY, OST_CREATE, OST_READ, OST_WRITE, SHORT_IO,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, IoObject, MaxBrw, Niobuf, Obdo, ObdoFlags, OstId};
use fulmar_lustre_wire::{Bytes, Fid, List, Uuid};
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, Serving, TargetLabel};

use crate::rig::{Scratch, TIMEOUT, ask, node, serve, session};

/// Waits until the OST has registered, and connects to it.
fn connect(session: &mut Session, address: &Address) -> (Configuration, ImportId) {
    let mgs = session.connect_mgs(address).unwrap();
    let begun = Instant::now();
    let file_system = loop {
        match session.file_system(mgs, address) {
            Ok(found) if !found.osts.is_empty() => break found,
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let uuid = Uuid::new("lv-MDT0000-lwp-test_UUID").unwrap();
    let ost = session.connect_as(uuid, &file_system.osts[0]).unwrap();
    (file_system, ost)
}

/// The object of the test.
const OBJECT: OstId = OstId::Fid(Fid { seq: 0x2_4000_0400, oid: 7, version: 0 });

/// Returns a request that creates, reads or writes an object.
pub(crate) fn object(
    format: &'static Format,
    id: OstId,
    data: &[u8],
    len: u32,
) -> Message<'static> {
    let flags = FlagWord { flags: ObdoFlags::SHORT_IO, ..FlagWord::default() };
    let valid = Valid::FLID | Valid::FLGROUP | Valid::FLFLAGS;
    let body = Obdo { valid, id, flags, ..Obdo::default() };
    let object = IoObject { id, max_brw: MaxBrw(0xffff_0000), ranges: 1 };
    let message = Message::request(format).with(&OST_BODY, &body);
    if format == &OST_CREATE {
        let body = Obdo { valid: Valid::FLGROUP, flags: FlagWord::default(), ..body };
        return message.with(&OST_BODY, &body);
    }
    message
        .with(&IO_OBJECTS, &List(vec![object]))
        .with(&NIOBUFS, &List(vec![Niobuf { offset: 0, len, ..Niobuf::default() }]))
        .with(&SHORT_IO, &Bytes(data.to_vec()))
}

/// Checks the statistics of an OST after the write of the test.
fn check_parameters(serving: &Serving, client: Nid) {
    let all: BTreeMap<_, _> = serving.parameters().all().into_iter().collect();
    let of = |parts: &[&str]| {
        let parts = ["obdfilter", "lv-OST0003"].iter().chain(parts);
        all[&parts.map(|part| (*part).to_owned()).collect::<Vec<_>>()].as_str()
    };
    let wrote = format!("\n{:35} 1 samples [bytes] 16 16 16 256\n", "write_bytes");
    let took = format!("\n{:35} 1 samples [usecs] ", "write");
    let client = client.to_string();
    for stats in [of(&["stats"]), of(&["exports", &client, "stats"])] {
        assert!(stats.contains(&wrote) && stats.contains(&took), "{stats}");
    }
    assert_eq!(of(&["blocksize"]), "4096\n");
}

#[test]
fn an_ost_registers_and_keeps_its_data_over_a_restart() {
    let scratch = Scratch::new("serving");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    fulmar_server::format(&scratch.0.join("mgs"), &Label::Mgs).unwrap();
    let label =
        Label::Target(TargetLabel { kind: TargetKind::Ost, index: 3, address: address.clone() });
    fulmar_server::format(&scratch.0.join("ost"), &label).unwrap();
    let (client, own) = node(&runtime);
    let data = b"what was written".to_vec();
    for is_first in [true, false] {
        let serving = serve(&server, nid, vec![scratch.0.join("mgs"), scratch.0.join("ost")]);
        let names = serving.devices().all().into_iter().map(|device| device.name);
        assert!(names.eq(["MGS", "lv-OST0003"]));
        let mut session = session(&client, own);
        let (file_system, ost) = connect(&mut session, &address);
        assert_eq!((file_system.osts[0].index, &file_system.osts[0].nids[..]), (3, &[nid][..]));
        if is_first {
            ask(&session, ost, object(&OST_CREATE, OBJECT, &[], 0));
            let written = ask(&session, ost, object(&OST_WRITE, OBJECT, &data, data.len() as u32));
            assert!(written.body.transno > 0);
            check_parameters(&serving, own);
        }
        let read = ask(&session, ost, object(&OST_READ, OBJECT, &[], 4096));
        let Bytes(found) = read.require(&SHORT_IO).unwrap();
        assert_eq!(&found[..data.len()], data);
        drop(session);
        let parameters = serving.parameters();
        serving.stop();
        assert_eq!(parameters.all(), []);
    }
    for directory in ["mgs", "ost"] {
        let (_, report) = fulmar_server::verify(&scratch.0.join(directory)).unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
    }
    client.stop();
    server.stop();
}
