//! The changelog of an MDT, read over the network.

use fulmar_base::Errno;
use fulmar_client::Session;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::format::{
    CHANGELOG_CLEAR, KEY, LLOG_BODY, LLOG_CREATE, LLOG_HEADER, LLOG_NEXT_BLOCK, LLOG_READ_HEADER,
    LLOG_RECORDS, MDS_CHANGELOG_CLEAR, MDT_BODY, NAME, REINT, REINT_CREATE,
};
use fulmar_lustre_wire::llog::{
    LogBlock, LogContext, LogFlags, LogHeader, LogId, LogRequest, RecordBody,
};
use fulmar_lustre_wire::mdt::{ChangelogClear, Create, MdtBody, ReintChange, ReintOp};
use fulmar_lustre_wire::message::Message;
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_server::ChangelogUserId;
use fulmar_wire::Order;

use crate::mdt::{connect, name, new_fid, record, root};
use crate::rig::{Scratch, ask, file_system, node, serve, session};

/// Later than any test: a user that seems idle would be forgotten.
const NOW: i64 = 1 << 33;

/// Returns the body of a request of root.
fn of_root() -> MdtBody {
    MdtBody { capability: u32::MAX, ..MdtBody::default() }
}

fn mkdir(session: &Session, mdt: ImportId, parent: Fid, child: Fid, new_name: &str) {
    let new = Create { child, mode: 0o040_755, ..Create::default() };
    let message = Message::request(&REINT_CREATE)
        .with(&REINT, &record(ReintOp::CREATE, parent, ReintChange::Create(new)))
        .with(&NAME, &name(new_name));
    ask(session, mdt, message);
}

/// Returns a log: its header, and its first chunk if there is one.
fn read(session: &Session, mdt: ImportId, id: LogId, kind: LogFlags) -> (LogHeader, LogBlock) {
    let flags = kind | LogFlags(0x13e8);
    let asked = LogRequest { id, context: LogContext::CHANGELOG, flags, ..LogRequest::default() };
    let header = ask(session, mdt, Message::request(&LLOG_READ_HEADER).with(&LLOG_BODY, &asked));
    let header = header.require(&LLOG_HEADER).unwrap();
    let asked = LogRequest { index: 1, len: 8192, offset: 8192, ..asked };
    let next = Message::request(&LLOG_NEXT_BLOCK).with(&LLOG_BODY, &asked);
    let block = match header.count {
        1 => LogBlock::default(),
        _ => ask(session, mdt, next).require(&LLOG_RECORDS).unwrap(),
    };
    (header, block)
}

/// Returns the records, as their number, kind and name.
fn changes(session: &Session, mdt: ImportId) -> Vec<(u64, ChangeKind, Vec<u8>)> {
    let asked = LogRequest { context: LogContext::CHANGELOG, ..LogRequest::default() };
    let open = Message::request(&LLOG_CREATE)
        .with(&LLOG_BODY, &asked)
        .with(&NAME, &name("changelog_catalog"))
        .with(&MDT_BODY, &of_root());
    let catalog: LogRequest = ask(session, mdt, open).require(&LLOG_BODY).unwrap();
    let (_, entries) = read(session, mdt, catalog.id, LogFlags::CATALOG);
    let mut found = vec![];
    for entry in entries.records {
        let RecordBody::CatalogEntry(entry) = entry.typed(Order::Little) else { continue };
        let (header, block) = read(session, mdt, entry.id, LogFlags::PLAIN);
        for record in block.records.into_iter().filter(|record| header.is_live(record.index)) {
            if let RecordBody::Changelog(change) = record.typed(Order::Little) {
                found.push((change.index, change.kind, change.name));
            }
        }
    }
    found
}

#[test]
fn a_client_reads_and_clears_the_changelog_over_restarts() {
    let scratch = Scratch::new("changelog");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let (address, directories) = file_system(&scratch, nid);
    let (client, own) = node(&runtime);

    let serving = serve(&server, nid, directories.clone());
    let changelogs = serving.changelogs();
    assert_eq!(changelogs.register("lv-MDT0000", (None, None), NOW), Ok(1));
    let unknown = changelogs.register("lv-MDT0001", (None, None), NOW);
    assert_eq!(unknown, Err(Errno::ENODEV));
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let (parent, first) = (root(&known, mdt), new_fid(&known, mdt));
    for (oid, new_name) in [(1, "a"), (2, "b"), (3, "c")] {
        mkdir(&known, mdt, parent, Fid { oid, ..first }, new_name);
    }
    let expected = |from: u64| {
        let all = [(1, "a"), (2, "b"), (3, "c")].into_iter().filter(|(number, _)| *number >= from);
        all.map(|(number, name)| (number, ChangeKind::MKDIR, name.as_bytes().to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(changes(&known, mdt), expected(1), "a reply waits for the disk");
    let cleared = ChangelogClear { record: 1, user: 1 };
    let clear = Message::request(&MDS_CHANGELOG_CLEAR)
        .with_bytes(&KEY, b"changelog_clear".to_vec())
        .with(&CHANGELOG_CLEAR, &cleared)
        .with(&MDT_BODY, &of_root());
    ask(&known, mdt, clear);
    drop(known);
    serving.stop();
    assert_eq!(changelogs.register("lv-MDT0000", (None, None), NOW), Err(Errno::ENODEV));

    let serving = serve(&server, nid, directories);
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    assert_eq!(changes(&known, mdt), expected(2));
    let user = ChangelogUserId::Number(1);
    assert_eq!(serving.changelogs().deregister("lv-MDT0000", &user), Ok(1));
    assert_eq!(changes(&known, mdt), []);
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}
