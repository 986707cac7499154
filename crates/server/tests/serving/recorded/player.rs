//! The conversations of recorded clients with our targets.
//!
//! What clients have sent is sent again, at its time and in its order; what it has of earlier replies is what
//! ours say. All that our targets send is kept and compared in the end.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::directory::DirectoryPage;
use fulmar_lustre_wire::format::{
    BLOCKING, CANCEL, LAYOUT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, OST_BODY, OST_CREATE, OST_DESTROY,
};
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::{LockFlags, LockRequest, LockType};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{Obdo, OstId};
use fulmar_lustre_wire::{Content, Fid, Handle, Opcode, Status, portal};
use fulmar_mdt::Object;
use fulmar_rpc::export::TargetId;
use fulmar_trace::rpc::Rpc;
use fulmar_wire::Order;
use serde_json::{Value, json};

use super::batch;
use super::clients::{Clients, connect_mdt, is_callback, ost_of};
use super::compare::{Difference, differences};
use super::handles::Handles;
use super::machine::{Machine, Move, SEQUENCES, Sent};

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// The recorded server has called a client back.
    Called,
    /// A client sends a request.
    Asks,
    /// A client answers a callback.
    Answers,
}

/// A callback of our server.
struct Callback {
    client: Nid,
    bits: u64,
    cookie: Handle,
    target: Option<TargetId>,
    format: String,
    message: Value,
    /// The recorded callback that it is.
    recorded: Option<usize>,
}

/// A conversation that is played.
pub(crate) struct Player<'a> {
    machine: Machine,
    rpcs: &'a [Rpc<'a>],
    clients: Clients,
    handles: Handles,
    /// The requests by client and match bits of their replies, and the parts of bulk data by theirs.
    by_reply: BTreeMap<(Nid, u64), usize>,
    parts: BTreeMap<(Nid, u64), (usize, usize)>,
    callbacks: Vec<Callback>,
    /// Own replies, and the bulk data that were sent, by their match bits.
    replies: BTreeMap<usize, Vec<(String, Value)>>,
    bulk: BTreeMap<usize, BTreeMap<u64, Vec<u8>>>,
    /// Our handles of the locks of clients, by theirs.
    locks: BTreeMap<(Nid, Handle), Handle>,
    /// Objects that files have got, and those that are gone.
    provided: BTreeSet<Fid>,
    destroyed: BTreeSet<Fid>,
    /// Our exports of the clients, and those of the MDT at the OSTs.
    exports: BTreeMap<(Nid, TargetId), Handle>,
    exports_of_mdt: Vec<Handle>,
    /// The XID of the last request of the rig itself.
    xid: u64,
    differences: Vec<Difference>,
}

/// The last object of each OST that exists from the beginning.
const OBJECTS: u32 = 0x400;

impl<'a> Player<'a> {
    /// Returns one for conversations with a file system of this many OSTs, perhaps with one more that
    /// joins it.
    pub(crate) fn new(rpcs: &'a [Rpc<'a>], mount: &[Rpc<'_>], (osts, joins): (u16, bool)) -> Self {
        let server = rpcs.iter().find(|rpc| !is_callback(rpc)).unwrap().server;
        let start = if joins { Machine::joining } else { Machine::new };
        let mut this = Self {
            machine: start(rpcs[0].request.time, server, osts),
            rpcs,
            clients: Clients::of(rpcs, mount),
            handles: Handles::default(),
            by_reply: BTreeMap::new(),
            parts: BTreeMap::new(),
            callbacks: vec![],
            replies: BTreeMap::new(),
            bulk: BTreeMap::new(),
            locks: BTreeMap::new(),
            provided: BTreeSet::new(),
            destroyed: BTreeSet::new(),
            exports: BTreeMap::new(),
            exports_of_mdt: vec![],
            xid: 0x1000,
            differences: vec![],
        };
        for (place, rpc) in rpcs.iter().enumerate() {
            let body = &rpc.request.message.body;
            let has_bits = body.match_bits != 0 && !body.opcode.is_connect();
            let bits = if has_bits { body.match_bits } else { rpc.xid };
            this.by_reply.insert((rpc.client, bits), place);
            for (part, moved) in rpc.bulk.iter().enumerate() {
                this.parts.insert((rpc.client, moved.match_bits), (place, part));
            }
        }
        for ost in 0..usize::from(osts) {
            this.make_objects(server, ost);
        }
        this
    }

    /// Makes the objects of an OST as its MDT.
    fn make_objects(&mut self, mdt: Nid, ost: usize) {
        let reply = self.ask(mdt, portal::OST_REQUEST, Handle::NONE, connect_mdt(ost));
        self.exports_of_mdt.push(reply.body.handle);
        let id = OstId::Fid(Fid { seq: SEQUENCES[ost], oid: OBJECTS, version: 0 });
        let body = Obdo { valid: Valid::FLGROUP, id, ..Obdo::default() };
        let create = Message::request(&OST_CREATE).with(&OST_BODY, &body);
        let reply = self.ask(mdt, portal::OST_REQUEST, reply.body.handle, create);
        assert_eq!(reply.body.status.errno(), None);
    }

    /// Sends a request of the rig, and returns the reply.
    fn ask(
        &mut self,
        client: Nid,
        portal: u32,
        export: Handle,
        mut message: Message<'static>,
    ) -> Message<'static> {
        self.send(client, portal, export, &mut message);
        let bits = self.xid;
        let is_reply = |sent: &Sent| (sent.put.target.nid, sent.put.match_bits) == (client, bits);
        let place = self.machine.sent.iter().position(is_reply).expect("it is answered");
        let sent = self.machine.sent.remove(place);
        let reply = Message::decode(&sent.bytes).unwrap().answering(message.format());
        reply.into_owned()
    }

    fn send(&mut self, client: Nid, portal: u32, export: Handle, message: &mut Message<'static>) {
        self.xid += 128;
        message.body.handle = export;
        message.body.timeout = 5;
        message.body.connection_count = message.body.connection_count.max(1);
        message.body.match_bits = self.xid;
        self.machine.request(client, portal, self.xid, message.to_bytes());
    }

    /// Plays everything, and returns all that is not as it was.
    pub(crate) fn play(mut self) -> Vec<Difference> {
        let mut acts: Vec<(Time, Act, usize)> = vec![];
        for (place, rpc) in self.rpcs.iter().enumerate() {
            match (is_callback(rpc), rpc.reply()) {
                (true, reply) => {
                    acts.push((rpc.request.time, Act::Called, place));
                    acts.extend(reply.map(|reply| (reply.time, Act::Answers, place)));
                }
                (false, _) => acts.push((rpc.request.time, Act::Asks, place)),
            }
        }
        acts.sort_by_key(|(time, act, place)| (*time, *act, *place));
        for (time, act, place) in acts {
            self.machine.advance(time);
            match act {
                Act::Called => self.remove_object(place),
                Act::Asks => self.request(place),
                Act::Answers => self.answer(place),
            }
            self.take(time);
        }
        self.compare();
        self.differences
    }

    /// Sends a request of a recorded client.
    fn request(&mut self, place: usize) {
        let rpc = &self.rpcs[place];
        let message = &rpc.request.message;
        let export = message.body.handle;
        if !export.is_none() && self.handles.own(export).is_none() {
            // Pings of connections that are used for nothing else are not played.
            let Some(target) = self.clients.target(export) else { return };
            self.connect(rpc.client, export, target, message.body.connection_count);
        }
        self.provide(place);
        let bytes = self.handles.rewritten(rpc.request.bytes);
        self.machine.request(rpc.client, rpc.portal, rpc.xid, bytes);
    }

    /// Connects a client that was connected before the recording.
    fn connect(&mut self, client: Nid, export: Handle, target: TargetId, attempt: u32) {
        let message = self.clients.connect(client, target, attempt);
        let portal = match message.body.opcode {
            Opcode::MGS_CONNECT => portal::MGS_REQUEST,
            Opcode::MDS_CONNECT => portal::MDS_REQUEST,
            _ => portal::OST_REQUEST,
        };
        let reply = self.ask(client, portal, Handle::NONE, message);
        assert_eq!(reply.body.status.errno(), None, "{client} connects to {target:?}");
        self.handles.add(export, reply.body.handle);
        self.exports.insert((client, target), reply.body.handle);
    }

    /// Gives the MDT the objects that a file gets: which ones is its choice.
    fn provide(&mut self, place: usize) {
        let Some(reply) = self.rpcs[place].reply() else { return };
        let layouts = match reply.message.get(&LAYOUT) {
            Ok(Some(Layout::File(layout))) => vec![layout],
            Ok(Some(Layout::Composite(layout))) => layout.initialised(),
            _ => vec![],
        };
        for layout in layouts {
            let objects = layout.objects.iter().filter_map(|object| match object.id {
                OstId::Fid(fid) => Some((object.ost, fid)),
                _ => None,
            });
            let objects: Vec<Object> =
                objects.filter(|(_, fid)| self.provided.insert(*fid)).collect();
            self.machine.provide(&objects);
        }
    }

    /// Removes an object of a removed file, as the MDT of the recording did before this callback.
    fn remove_object(&mut self, place: usize) {
        let rpc = &self.rpcs[place];
        let Ok(called) = rpc.request.message.require(&LOCK_REQUEST) else { return };
        let fid = called.lock.resource.id.fid();
        let is_removal = called.lock.resource.kind == LockType::EXTENT
            && called.flags.has(LockFlags::DISCARD_DATA);
        if !is_removal || !self.machine.removed().contains(&fid) || !self.destroyed.insert(fid) {
            return;
        }
        let ost = ost_of(fid.seq).unwrap().0 as usize - 2;
        let valid = Valid::FLID | Valid::FLGROUP | Valid::FLOBJCOUNT;
        let body = Obdo { valid, id: OstId::Fid(fid), misc: 1, ..Obdo::default() };
        let mut message = Message::request(&OST_DESTROY).with(&OST_BODY, &body);
        // The MDT of an OST that joins is in the recording.
        let Some(&export) = self.exports_of_mdt.get(ost) else { return };
        self.send(rpc.client, portal::OST_REQUEST, export, &mut message);
    }

    /// Answers a callback of ours as the recorded client.
    fn answer(&mut self, place: usize) {
        let Some(callback) = self.callbacks.iter().find(|one| one.recorded == Some(place)) else {
            return;
        };
        let reply = self.rpcs[place].reply().expect("it has answered");
        self.machine.answer(callback.client, callback.bits, reply.bytes.to_vec());
    }

    /// Handles what our targets have sent.
    fn take(&mut self, now: Time) {
        loop {
            let moves = std::mem::take(&mut self.machine.moves);
            let sent = std::mem::take(&mut self.machine.sent);
            if moves.is_empty() && sent.is_empty() {
                return;
            }
            moves.iter().for_each(|part| self.move_part(part));
            for message in sent {
                match message.put.portal {
                    portal::LDLM_CALLBACK_REQUEST => self.call(now, &message),
                    _ => self.reply(&message),
                }
            }
        }
    }

    fn move_part(&mut self, part: &Move) {
        let found = self.parts.get(&(part.client, part.match_bits)).copied();
        let (place, at) = found.expect("the client has memory for it");
        let recorded = &self.rpcs[place].bulk[at];
        let moved = self.machine.finish(part, part.is_get.then_some(recorded.bytes));
        if !part.is_get {
            self.bulk.entry(place).or_default().insert(part.match_bits, moved);
        }
    }

    fn reply(&mut self, sent: &Sent) {
        let (client, bits) = (sent.put.target.nid, sent.put.match_bits);
        let Some(&place) = self.by_reply.get(&(client, bits)) else { return };
        let rpc = &self.rpcs[place];
        let message = Message::decode(&sent.bytes).unwrap();
        let message = message.answering(rpc.request.message.format());
        if sent.put.offset == 0 && message.has_early_checksum() {
            return;
        }
        if let Some(recorded) = rpc.reply() {
            self.handles.learn(&recorded.message, &message);
            let recorded = batch::replies(&recorded.message);
            for (recorded, own) in recorded.iter().zip(batch::replies(&message)) {
                self.handles.learn(recorded, &own);
            }
        }
        self.note_lock(client, &rpc.request.message, &message);
        for (asked, given) in batch::requests(rpc).iter().zip(batch::replies(&message)) {
            self.note_lock(client, asked, &given);
        }
        let mut shown = batch::shown(&message);
        shown.iter_mut().for_each(|(_, value)| self.handles.translate(value));
        self.replies.insert(place, shown);
    }

    /// Notes the lock that a reply gives.
    fn note_lock(&mut self, client: Nid, request: &Message<'_>, reply: &Message<'_>) {
        let asked = request.get(&LOCK_REQUEST).ok().flatten();
        let given = reply.get(&LOCK_REPLY).ok().flatten();
        if let (Some(asked), Some(given)) = (asked, given)
            && let Some(cookie) = asked.handles.first()
        {
            self.locks.insert((client, *cookie), given.handle);
        }
    }

    /// Handles a callback of ours.
    fn call(&mut self, now: Time, sent: &Sent) {
        let message = Message::decode(&sent.bytes).unwrap();
        let lock = message.require(&LOCK_REQUEST).unwrap();
        let (client, bits, cookie) = (sent.put.target.nid, sent.put.match_bits, lock.handles[0]);
        let is_same = |(place, rpc): &(usize, &Rpc<'_>)| {
            is_callback(rpc)
                && rpc.server == client
                && rpc.request.message.body.opcode == message.body.opcode
                && rpc.request.message.require(&LOCK_REQUEST).unwrap().handles[0] == cookie
                && self.callbacks.iter().all(|other| other.recorded != Some(*place))
        };
        let recorded = self.rpcs.iter().enumerate().find(is_same).map(|(place, _)| place);
        let mut value = json!(message);
        self.handles.translate(&mut value);
        let target = match lock.lock.resource.kind {
            LockType::EXTENT => ost_of(lock.lock.resource.id.fid().seq),
            _ => Some(super::machine::MDT),
        };
        let format = message.format().to_string();
        let callback = Callback { client, bits, cookie, target, format, message: value, recorded };
        self.callbacks.push(callback);
        match recorded {
            Some(place) if self.rpcs[place].reply().is_some_and(|reply| reply.time > now) => {}
            Some(place) => self.answer(place),
            None => self.give_up(self.callbacks.len() - 1, &lock),
        }
    }

    /// Answers a callback that the recorded server has not sent, and gives the lock back.
    fn give_up(&mut self, callback: usize, lock: &LockRequest) {
        let Callback { client, bits, cookie, target, ref format, .. } = self.callbacks[callback];
        let about = format!("{:?} {}", lock.lock.granted, lock.lock.resource.id);
        self.differences.push(Difference {
            place: format!("{bits:#x}"),
            operation: format.clone(),
            field: "callback".to_owned(),
            recorded: "-".to_owned(),
            own: about,
        });
        let Some(target) = target else { return };
        let mut reply = Message::reply(&BLOCKING, Status::OK);
        reply.body.match_bits = bits;
        self.machine.answer(client, bits, reply.to_bytes());
        let export = self.exports.get(&(client, target)).copied();
        let handle = self.locks.get(&(client, cookie)).copied();
        if let (Some(export), Some(handle)) = (export, handle)
            && format.contains("BL_CALLBACK")
        {
            let handles = vec![handle, Handle::NONE];
            let lock = LockRequest { count: 1, handles, ..LockRequest::default() };
            let mut message = Message::request(&CANCEL).with(&LOCK_REQUEST, &lock);
            self.send(client, portal::LDLM_CANCEL_REQUEST, export, &mut message);
        }
    }

    /// Compares everything with what was recorded.
    fn compare(&mut self) {
        for (place, rpc) in self.rpcs.iter().enumerate() {
            let Some(reply) = rpc.reply() else { continue };
            let (at, format) =
                (format!("{:#x}", rpc.xid), rpc.request.message.format().to_string());
            let at = (at.as_str(), format.as_str());
            let lost = |field: &str| Difference {
                place: at.0.to_owned(),
                operation: at.1.to_owned(),
                field: field.to_owned(),
                recorded: "there".to_owned(),
                own: "-".to_owned(),
            };
            if is_callback(rpc) {
                let own = self.callbacks.iter().find(|one| one.recorded == Some(place));
                match own {
                    Some(own) => {
                        let recorded = json!(rpc.request.message);
                        self.differences.extend(differences(at, &recorded, &own.message));
                    }
                    None if self.is_of_before(rpc) => {}
                    None => self.differences.push(lost("callback")),
                }
                continue;
            }
            if self.clients.target(rpc.request.message.body.handle).is_none()
                && !rpc.request.message.body.handle.is_none()
                || self.cancels_of_before(rpc)
            {
                continue;
            }
            match self.replies.get(&place) {
                Some(own) => {
                    let recorded = batch::shown(&reply.message);
                    if own.len() != recorded.len() {
                        self.differences.push(lost("part"));
                    }
                    for ((operation, recorded), (_, own)) in recorded.iter().zip(own) {
                        self.differences.extend(differences((at.0, operation), recorded, own));
                    }
                }
                None => self.differences.push(lost("reply")),
            }
            self.compare_bulk(place, at);
        }
    }

    /// Returns whether a callback is about a lock that its client had before the recording.
    fn is_of_before(&self, callback: &Rpc<'_>) -> bool {
        let cookie = |rpc: &Rpc<'_>| {
            let lock = rpc.request.message.get(&LOCK_REQUEST).ok().flatten();
            lock.and_then(|lock| lock.handles.first().copied())
        };
        let mut asked = self.rpcs.iter().filter(|rpc| rpc.client == callback.server);
        asked.all(|rpc| is_callback(rpc) || cookie(rpc) != cookie(callback))
    }

    /// Returns whether a request gives only locks back that its client had before the recording.
    fn cancels_of_before(&self, rpc: &Rpc<'_>) -> bool {
        let message = &rpc.request.message;
        let lock = message.get(&LOCK_REQUEST).ok().flatten().unwrap_or_default();
        let mut handles = lock.handles.iter().filter(|handle| !handle.is_none());
        message.body.opcode == Opcode::LDLM_CANCEL
            && handles.all(|handle| self.handles.own(*handle).is_none())
    }

    /// Compares bulk data: of directories their entries, which every server orders in its own way.
    fn compare_bulk(&mut self, place: usize, at: (&str, &str)) {
        let rpc = &self.rpcs[place];
        let recorded = rpc.bulk.iter().filter(|part| part.from_server);
        let mut recorded: Vec<_> = recorded.map(|part| (part.match_bits, part.bytes)).collect();
        recorded.sort_unstable();
        let recorded: Vec<u8> = recorded.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
        let own = self.bulk.remove(&place).unwrap_or_default();
        let own: Vec<u8> = own.into_values().flatten().collect();
        let message = &rpc.request.message;
        if message.body.opcode == Opcode::MDS_READPAGE {
            // What is behind a place of the recorded order is not comparable.
            let from = message.require(&MDT_BODY).unwrap().size;
            let [theirs, ours] = [&recorded, &own].map(|bytes| entries(bytes));
            if from == 0 {
                self.differences.extend(differences(at, &theirs, &ours));
            }
            return;
        }
        let shown = |bytes: &[u8]| match message.format().bulk(bytes) {
            Some(field) if !bytes.is_empty() => {
                json!({ "bulk": field.value(bytes, message.order).unwrap() })
            }
            _ => json!({ "bulk": bytes.len() }),
        };
        self.differences.extend(differences(at, &shown(&recorded), &shown(&own)));
        if message.format().bulk(&recorded).is_none() && recorded != own {
            self.differences.extend(differences(at, &json!("data"), &json!("other data")));
        }
    }
}

/// Returns the entries of pages of a directory by name.
fn entries(pages: &[u8]) -> Value {
    let pages = pages.chunks(DirectoryPage::LEN);
    let pages = pages.map(|page| DirectoryPage::decode(page, Order::Little).unwrap());
    let mut entries: Vec<Value> =
        pages.flat_map(|page| page.entries).map(|entry| json!(entry)).collect();
    entries.sort_by_key(|entry| entry["name"].to_string());
    for entry in &mut entries {
        entry.as_object_mut().map(|entry| entry.remove("hash"));
    }
    json!({ "entries": entries })
}
