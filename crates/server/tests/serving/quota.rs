//! Limits of files, as clients set them and meet them.

use fulmar_base::Errno;
use fulmar_client::Session;
use fulmar_lustre_wire::format::{MDS_QUOTACTL, NAME, QUOTACTL, REINT, REINT_CREATE};
use fulmar_lustre_wire::mdt::{Create, Reint, ReintChange, ReintHead, ReintOp};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_lustre_wire::{Bytes, Fid};
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use crate::mdt::{connect, name, new_fid, record, root};
use crate::rig::{Scratch, ask, file_system, node, serve, session};

const USER: u32 = 1000;
const INODE_LIMITS: u32 = 0x4;

fn quotactl(
    session: &Session,
    mdt: ImportId,
    command: QuotaCommand,
    limits: QuotaLimits,
) -> Result<QuotaLimits, Errno> {
    let (kind, times, rest) = (QuotaKind::USER, QuotaTimes::default(), Bytes::default());
    let asked =
        QuotaControl { command, kind, id: USER, status: 0, times, limits, pool: None, rest };
    let message = Message::request(&MDS_QUOTACTL).with(&QUOTACTL, &asked);
    let reply = session.call(mdt, Request::new(message, 4096))?;
    Ok(reply.require(&QUOTACTL).unwrap().limits)
}

/// Makes a directory as the user.
fn mkdir(session: &Session, mdt: ImportId, place: (Fid, &str), child: Fid) -> Result<(), Errno> {
    let new = Create { child, mode: 0o40_755, ..Create::default() };
    let head = ReintHead {
        op: ReintOp::CREATE,
        fid: place.0,
        fsuid: USER,
        fsgid: USER,
        suppgid1: u32::MAX,
        suppgid2: u32::MAX,
        ..ReintHead::default()
    };
    let record = Reint::new(head, ReintChange::Create(new)).unwrap();
    let message = Message::request(&REINT_CREATE).with(&REINT, &record).with(&NAME, &name(place.1));
    session.call(mdt, Request::new(message, 64 << 10)).map(drop)
}

#[test]
fn a_limit_holds_for_clients_also_after_a_restart() {
    let scratch = Scratch::new("quota");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let (address, directories) = file_system(&scratch, nid);
    let (client, own) = node(&runtime);

    let serving = serve(&server, nid, directories.clone());
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let top = root(&known, mdt);
    let home = new_fid(&known, mdt);
    let fid = |oid| Fid { oid, ..home };
    // One that everybody may write to.
    let new = Create { child: home, mode: 0o40_777, ..Create::default() };
    let message = Message::request(&REINT_CREATE)
        .with(&REINT, &record(ReintOp::CREATE, top, ReintChange::Create(new)))
        .with(&NAME, &name("home"));
    ask(&known, mdt, message);
    let limits = QuotaLimits { inode_hard: 2, valid: INODE_LIMITS, ..QuotaLimits::default() };
    quotactl(&known, mdt, QuotaCommand::SETQUOTA, limits).unwrap();
    mkdir(&known, mdt, (home, "a"), fid(2)).unwrap();
    drop(known);
    serving.stop();

    let serving = serve(&server, nid, directories);
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let found = quotactl(&known, mdt, QuotaCommand::GETQUOTA, QuotaLimits::default()).unwrap();
    assert_eq!((found.inode_soft, found.inode_hard), (0, 2));
    mkdir(&known, mdt, (home, "b"), fid(3)).unwrap();
    assert_eq!(mkdir(&known, mdt, (home, "c"), fid(4)), Err(Errno::EDQUOT));
    let used = quotactl(&known, mdt, QuotaCommand::GETOQUOTA, QuotaLimits::default()).unwrap();
    assert_eq!(used.inodes, 2);
    let blocks = QuotaLimits { block_hard: 1, valid: 0x1, ..QuotaLimits::default() };
    let refused = quotactl(&known, mdt, QuotaCommand::SETQUOTA, blocks);
    assert_eq!(refused, Err(Errno::EOPNOTSUPP));
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}
