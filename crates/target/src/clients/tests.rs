use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::OST_PUNCH;
use fulmar_lustre_wire::message::Message;
use fulmar_store::Policy;

use super::*;
use crate::replies::RequestKey;
use crate::transactions::Numbering;

fn uuid(text: &str) -> Uuid {
    Uuid::new(text).unwrap()
}

fn connect(store: &Store, name: &str) -> Client {
    let mut transaction = store.begin();
    let flags = ConnectFlags::GRANT | ConnectFlags::AT;
    let asked = Client { number: 0, flags, flags2: ConnectFlags2::INC_XID, group: 3 };
    let client = put(&mut transaction, uuid(name), asked).unwrap();
    transaction.apply().unwrap();
    client
}

fn answer(store: &Store, client: &Client, tag: u16, xid: u64, numbering: Numbering) -> u64 {
    let mut transaction = store.begin();
    let reply = Message::reply(&OST_PUNCH, Status(-28));
    let asked = RequestKey { client: client.number, tag, xid };
    replies::put(&mut transaction, asked, numbering, &reply);
    transaction.apply().unwrap()
}

#[test]
fn clients_are_known_with_the_last_reply_of_each_slot() {
    let store = Store::memory(b"", Policy::default());
    let (a, b) = (connect(&store, "a"), connect(&store, "b"));
    assert_eq!((a.number, b.number), (1, 2));
    answer(&store, &a, 1, 128, Numbering::New);
    let last = answer(&store, &a, 1, 256, Numbering::New);
    answer(&store, &a, 2, 192, Numbering::Replay(77));
    // A client that connects again stays the same.
    assert_eq!(connect(&store, "a").number, 1);

    let known = known(&store).unwrap();
    assert_eq!(known.iter().map(|one| one.client).collect::<Vec<_>>(), [uuid("a"), uuid("b")]);
    let saved = |one: &fulmar_rpc::service::SavedReply| {
        (one.tag, one.xid, one.reply.body.transno, one.reply.body.status)
    };
    let found: Vec<_> = known[0].replies.iter().map(saved).collect();
    assert_eq!(found, [(1, 256, last, Status(-28)), (2, 192, 77, Status(-28))]);
    assert!(known[1].replies.is_empty());
    let kept = get(&store, uuid("a")).unwrap().unwrap();
    assert_eq!((kept.flags, kept.group), (ConnectFlags::GRANT | ConnectFlags::AT, 3));
}

#[test]
fn a_client_that_leaves_takes_its_replies_along() {
    let store = Store::memory(b"", Policy::default());
    let (a, b) = (connect(&store, "a"), connect(&store, "b"));
    answer(&store, &a, 0, 128, Numbering::New);
    answer(&store, &b, 0, 128, Numbering::New);
    let mut transaction = store.begin();
    remove(&store, &mut transaction, uuid("a")).unwrap();
    remove(&store, &mut transaction, uuid("nothing")).unwrap();
    transaction.apply().unwrap();
    let known = known(&store).unwrap();
    assert_eq!((known.len(), known[0].client, known[0].replies.len()), (1, uuid("b"), 1));
    assert!(replies::of(&store, a.number).unwrap().is_empty());
    // Its number is not used again.
    assert_eq!(connect(&store, "a").number, 3);
}
