//! The last reply of each slot of a client, which is in the transaction of its request.
//! Spec: ptlrpc-ldlm-mgs §6.6, §6.7, §15.5.

use std::ops::Bound;

use fulmar_lustre_wire::message::Message;
use fulmar_rpc::service::SavedReply;
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_wire::{Order, Reader, Writer, wire_struct};

use crate::records::{REPLIES, damaged, decode};
use crate::transactions::Numbering;

/// More slots than a client may have. Spec: ptlrpc-ldlm-mgs §6.6.
const SLOTS_MAX: usize = 1024;

wire_struct! {
    /// The slot of a client. Its tag is 0 if the client has only one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Slot {
        client: u32,
        tag: u16,
    }
}

/// The request that a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The number of the client.
    pub client: u32,
    /// The slot.
    pub tag: u16,
    /// The number of the request.
    pub xid: u64,
}

/// Adds to a transaction the reply that its request will get. It takes the place of the previous one of
/// the slot. The number of the transaction is filled in when it is applied.
pub fn put(
    transaction: &mut Transaction<'_>,
    asked: RequestKey,
    numbering: Numbering,
    reply: &Message<'_>,
) {
    let mut reply = reply.clone().into_owned();
    let key = crate::records::encode(&Slot { client: asked.client, tag: asked.tag });
    transaction.put_numbered(REPLIES, &key, move |number| {
        reply.body.transno = numbering.transno(number);
        let mut bytes = Vec::with_capacity(512);
        Writer::new(&mut bytes, Order::Big).u64(asked.xid);
        reply.encode(&mut bytes);
        bytes
    });
}

/// Returns the replies of a client.
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn of(store: &Store, client: u32) -> Result<Vec<SavedReply>, StoreError> {
    let found = slots(store, client)?.into_iter().map(|(key, value)| {
        let slot: Slot = decode(&key, "the slot of a reply")?;
        let mut reader = Reader::new(&value, Order::Big);
        let read = reader.u64("xid").and_then(|xid| Ok((xid, Message::decode(reader.rest())?)));
        let (xid, reply) = read.map_err(|error| damaged("the reply of a client", error))?;
        Ok(SavedReply { tag: slot.tag, xid, reply: reply.into_owned() })
    });
    found.collect()
}

/// Forgets the replies of a client.
pub(crate) fn remove(
    store: &Store,
    transaction: &mut Transaction<'_>,
    client: u32,
) -> Result<(), StoreError> {
    for (key, _) in slots(store, client)? {
        transaction.delete(REPLIES, &key);
    }
    Ok(())
}

fn slots(store: &Store, client: u32) -> Result<Vec<(Vec<u8>, fulmar_store::Value)>, StoreError> {
    let key = |tag| crate::records::encode(&Slot { client, tag });
    let (first, last) = (key(0), key(u16::MAX));
    store.scan(REPLIES, Bound::Included(&first), Bound::Included(&last), SLOTS_MAX)
}
