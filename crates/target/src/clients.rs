//! The clients of a target: who may recover after a restart. Spec: ptlrpc-ldlm-mgs §15.1, §15.4.

use std::ops::Bound;

use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::{Content, Uuid};
use fulmar_rpc::service::KnownClient;
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_wire::{Order, wire_struct};

use crate::records::{CLIENTS, STATE, damaged, decode, encode};
use crate::replies;

const NEXT: &[u8] = b"clients";
/// How many are read at once.
const PAGE: usize = 1024;

wire_struct! {
    /// A client as a target remembers it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Client {
        /// Its place in the records of the target. Never used twice.
        pub number: u32,
        /// What was granted to it.
        pub flags: ConnectFlags,
        /// More of what was granted.
        pub flags2: ConnectFlags2,
        /// The index of the MDT that it is, if it is one.
        pub group: u32,
    }
}

/// Adds a client that has connected, or changes what was granted to it. Returns the record.
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn put(
    transaction: &mut Transaction<'_>,
    uuid: Uuid,
    client: Client,
) -> Result<Client, StoreError> {
    let old = transaction.get(CLIENTS, uuid.as_bytes())?;
    let number = match old {
        Some(old) => decode::<Client>(&old, "the record of a client")?.number,
        None => {
            let next = transaction.get(STATE, NEXT)?;
            let next: u32 = next.map_or(Ok(1), |next| decode(&next, "the number of clients"))?;
            transaction.put(STATE, NEXT, encode(&next.wrapping_add(1)));
            next
        }
    };
    let client = Client { number, ..client };
    transaction.put(CLIENTS, uuid.as_bytes(), encode(&client));
    Ok(client)
}

/// Forgets a client with its replies.
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn remove(
    store: &Store,
    transaction: &mut Transaction<'_>,
    uuid: Uuid,
) -> Result<(), StoreError> {
    if let Some(client) = transaction.get(CLIENTS, uuid.as_bytes())? {
        let client: Client = decode(&client, "the record of a client")?;
        transaction.delete(CLIENTS, uuid.as_bytes());
        replies::remove(store, transaction, client.number)?;
        transaction.release_space();
    }
    Ok(())
}

/// Returns a client.
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn get(store: &Store, uuid: Uuid) -> Result<Option<Client>, StoreError> {
    let client = store.get(CLIENTS, uuid.as_bytes())?;
    client.map(|client| decode(&client, "the record of a client")).transpose()
}

/// Returns all clients.
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn all(store: &Store) -> Result<Vec<(Uuid, Client)>, StoreError> {
    let mut found = vec![];
    let mut from = Bound::Unbounded;
    loop {
        let from_key = from.as_ref().map(|key: &Vec<u8>| &key[..]);
        let page = store.scan(CLIENTS, from_key, Bound::Unbounded, PAGE)?;
        for (key, value) in &page {
            let uuid = Uuid::decode(key, Order::Big);
            let uuid = uuid.map_err(|error| damaged("the name of a client", error))?;
            found.push((uuid, decode(value, "the record of a client")?));
        }
        match page.into_iter().next_back() {
            Some((last, _)) => from = Bound::Excluded(last),
            None => return Ok(found),
        }
    }
}

/// Returns all clients with their last replies, for [`Server::recover`](fulmar_rpc::service::Server::recover).
///
/// # Errors
/// If the store has ended or cannot be read.
pub fn known(store: &Store) -> Result<Vec<KnownClient>, StoreError> {
    let known = all(store)?.into_iter().map(|(uuid, client)| {
        Ok(KnownClient { client: uuid, replies: replies::of(store, client.number)? })
    });
    known.collect()
}

#[cfg(test)]
mod tests;
