//! An MDT with clients that send it requests, without a network.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::changelog::Changelog;
use fulmar_lustre_wire::directory::DirectoryEntry;
use fulmar_lustre_wire::format::{INTENT, LAYOUT, MDT_BODY, NAME};
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::{Disposition, IntentOps};
use fulmar_lustre_wire::mdt::{MdtBody, OpenFlags, SetAttr};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid, Handle, Opcode, Status, directory};
use fulmar_mdt::{Call, Caller, IntentReply, Mdt, Object, Objects, Owner, Plan, Settings};
use fulmar_store::{Policy, Space, Store, Transaction};
use fulmar_target::parameters::Moment;
use fulmar_wire::Order;

use crate::requests::{self, ROOT, asked, fid};

/// The node of most requests: 10.0.0.9@tcp.
pub(crate) const NID: Nid = Nid::from_small(0x0002_0000_0a00_0009);
/// The time of all requests.
pub(crate) const NOW: i64 = 1_795_184_574;
/// The sequence of the objects.
const OBJECTS_SEQ: u64 = 0x2_4000_0400;
/// What became of objects, by number. No records of an MDT are in it.
const OBJECTS: Space = Space::new(0x70);

/// The nanoseconds of the time of all requests.
pub(crate) const NANOS: u32 = 7;

/// Returns a call of a client.
pub(crate) fn call<'a>(export: u64, xid: u64, message: &'a Message<'a>) -> Call<'a> {
    Call { export: Handle(export), xid, nid: NID, now: NOW, nanos: NANOS, message }
}

/// An OST. What becomes of its objects is in the store of the MDT.
#[derive(Default)]
pub(crate) struct Osts {
    taken: AtomicU32,
}

/// The records of the changelog.
const CHANGES: Space = Space::new(0x28);

/// What became of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) used: u8,
    pub(crate) destroyed: u8,
    pub(crate) uid: u32,
}

impl Fate {
    fn decode(value: &[u8]) -> Self {
        let uid = u32::from_be_bytes(value[2..].try_into().unwrap());
        Self { used: value[0], destroyed: value[1], uid }
    }

    fn change(transaction: &mut Transaction<'_>, object: Object, change: impl FnOnce(&mut Self)) {
        let key = object.1.oid.to_be_bytes();
        // If the store does not answer, it does not take the transaction either.
        let before = transaction.get(OBJECTS, &key).ok().flatten();
        let mut fate = before.map_or_else(Self::default, |value| Self::decode(&value));
        change(&mut fate);
        let [a, b, c, d] = fate.uid.to_be_bytes();
        transaction.put(OBJECTS, &key, vec![fate.used, fate.destroyed, a, b, c, d]);
    }
}

impl Objects for Osts {
    fn take(&self, plan: &Plan) -> Result<Vec<Object>, Errno> {
        let object = |_| {
            let oid = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
            (0, Fid { seq: OBJECTS_SEQ, oid, version: 0 })
        };
        Ok((0..plan.stripe_count.clamp(1, 4)).map(object).collect())
    }

    fn used(&self, transaction: &mut Transaction<'_>, objects: &[Object]) {
        objects.iter().for_each(|&object| {
            Fate::change(transaction, object, |fate| fate.used = fate.used.saturating_add(1))
        });
    }

    fn destroy(&self, transaction: &mut Transaction<'_>, objects: &[Object]) {
        let destroy = |fate: &mut Fate| fate.destroyed = fate.destroyed.saturating_add(1);
        objects.iter().for_each(|&object| Fate::change(transaction, object, destroy));
    }

    fn set_owner(&self, transaction: &mut Transaction<'_>, objects: &[Object], owner: Owner) {
        let set = |fate: &mut Fate| fate.uid = owner.uid;
        objects.iter().for_each(|&object| Fate::change(transaction, object, set));
    }
}

/// Returns the object of a layout with one stripe.
pub(crate) fn object_of(layout: &[u8]) -> Option<u32> {
    match Layout::decode(layout, Order::Little) {
        Ok(Layout::File(layout)) => Some(layout.objects.first()?.id.fid(0)?.oid),
        _ => None,
    }
}

pub(crate) struct Rig {
    pub(crate) mdt: Mdt,
    pub(crate) store: Arc<Store>,
    pub(crate) osts: Arc<Osts>,
    settings: Settings,
    xid: u64,
    oid: u32,
}

/// What a client learns.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) message: Message<'static>,
    /// How far an intent went.
    pub(crate) disposition: Disposition,
    /// Whether the request, or the intent, was successful.
    pub(crate) result: Result<(), Errno>,
}

impl Reply {
    pub(crate) fn body(&self) -> MdtBody {
        self.message.require(&MDT_BODY).unwrap()
    }

    pub(crate) fn layout(&self) -> &[u8] {
        self.message.bytes(&LAYOUT).unwrap_or_default()
    }

    pub(crate) fn transno(&self) -> u64 {
        self.message.body.transno
    }

    fn of(message: Message<'static>) -> Self {
        let result = message.body.status.errno().map_or(Ok(()), Err);
        Self { message, disposition: Disposition::NONE, result }
    }
}

impl From<IntentReply> for Reply {
    fn from(done: IntentReply) -> Self {
        Self { message: done.reply, disposition: done.disposition, result: done.result }
    }
}

impl Rig {
    /// Returns one with two clients, 1 and 2.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let store = Arc::new(Store::memory(b"MDT", Policy::default()));
        let mut rig = Self::on(store, settings);
        rig.connect(1);
        rig.connect(2);
        rig
    }

    pub(crate) fn on(store: Arc<Store>, settings: Settings) -> Self {
        let osts = Arc::new(Osts::default());
        let mdt = Mdt::start(store.clone(), settings, osts.clone(), NOW).unwrap();
        Self { mdt, store, osts, settings, xid: 0x6b00_5767_0000_0000, oid: 0 }
    }

    /// Starts again on the same data. Clients may recover.
    pub(crate) fn restart(&mut self, store: Arc<Store>) {
        self.mdt = Mdt::start(store.clone(), self.settings, self.osts.clone(), NOW).unwrap();
        self.store = store;
        for known in self.mdt.known_clients().to_vec() {
            let name = known.client.to_string();
            let export: u64 = name.strip_prefix("client").unwrap().parse().unwrap();
            self.mdt.restore(Handle(export), known.client).unwrap();
            self.connect(export);
        }
    }

    pub(crate) fn next_xid(&mut self) -> u64 {
        self.xid += 128;
        self.xid
    }

    /// Returns a FID that no file has.
    pub(crate) fn next_fid(&mut self) -> Fid {
        self.oid += 1;
        fid(self.oid)
    }

    pub(crate) fn connect(&mut self, export: u64) {
        let request = requests::connect(&format!("client{export}"), &asked());
        self.ask(export, &request).unwrap();
    }

    /// Sends a request. An error says that the reply has no buffers.
    pub(crate) fn send(&mut self, export: u64, request: &Message<'_>) -> Result<Reply, Errno> {
        self.send_from(NID, export, request)
    }

    /// Sends a request from a node.
    pub(crate) fn send_from(
        &mut self,
        nid: Nid,
        export: u64,
        request: &Message<'_>,
    ) -> Result<Reply, Errno> {
        let xid = self.next_xid();
        self.execute(&Call { nid, ..call(export, xid, request) })
    }

    /// Sets a parameter, such as `mdt.*.root_squash`.
    pub(crate) fn tune(&self, name: &str, value: &str) -> Result<(), String> {
        let found = Mdt::PARAMETERS.iter().find(|one| one.name == name).unwrap();
        found.write.unwrap()(&self.mdt, value)
    }

    /// Returns the text of a parameter.
    pub(crate) fn shown(&self, name: &str) -> String {
        let now = Duration::from_secs(NOW as u64);
        let moment = Moment { now, started: now, exports: 2 };
        let found = Mdt::PARAMETERS.iter().find(|one| one.name == name).unwrap();
        (found.read)(&self.mdt, &moment).unwrap()
    }

    /// Executes a request as the host of an MDT does, without its locks.
    pub(crate) fn execute(&self, call: &Call<'_>) -> Result<Reply, Errno> {
        match call.message.body.opcode {
            Opcode::LDLM_ENQUEUE => self.execute_intent(call),
            Opcode::MDS_REINT => Ok(Reply::of(self.mdt.reint(call)?.reply)),
            Opcode::MDS_READPAGE => Ok(Reply::of(self.mdt.readpage(call)?.reply)),
            _ => Ok(Reply::of(self.mdt.execute(call)?.reply)),
        }
    }

    fn execute_intent(&self, call: &Call<'_>) -> Result<Reply, Errno> {
        let intent = call.message.require(&INTENT).map_err(|_| Errno::EPROTO)?;
        match intent.ops {
            ops if ops.has(IntentOps::OPEN) => Ok(self.mdt.open(call).into()),
            IntentOps::GETATTR | IntentOps::LOOKUP => self.execute_lookup(call),
            IntentOps::GETXATTR => Ok(self.mdt.getxattr_intent(call).into()),
            IntentOps::LAYOUT => {
                let asked = call.message.require(&fulmar_lustre_wire::format::LOCK_REQUEST);
                let asked = asked.map_err(|_| Errno::EPROTO)?;
                Ok(self.mdt.layout_intent(call, asked.lock.resource.id.fid()).into())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn execute_lookup(&self, call: &Call<'_>) -> Result<Reply, Errno> {
        let body = call.message.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let name = call.message.get(&NAME).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let caller = self.mdt.caller(call, Caller::of_body(&body))?;
        let found = match name.as_bytes() {
            b"" | b"/" => Some(if body.child == Fid::default() { body.fid } else { body.child }),
            name => match self.mdt.lookup(body.fid, name, &caller) {
                Ok(found) => found,
                Err(failure) => {
                    let reply = Reply::from(self.mdt.getattr_intent(call, None));
                    return Ok(Reply { result: Err(failure.errno()), ..reply });
                }
            },
        };
        Ok(self.mdt.getattr_intent(call, found).into())
    }

    /// Sends a request, and returns the reply if it was successful.
    pub(crate) fn ask(&mut self, export: u64, request: &Message<'_>) -> Result<Reply, Errno> {
        let reply = self.send(export, request)?;
        if let Err(errno) = reply.result {
            assert_eq!(reply.transno(), 0, "a failure is no transaction");
            return Err(errno);
        }
        Ok(reply)
    }

    /// Sends a request of the first client that must succeed.
    pub(crate) fn must(&mut self, request: &Message<'_>) -> Reply {
        self.ask(1, request).unwrap()
    }

    /// Returns the error of a request of the first client that must fail.
    pub(crate) fn fails(&mut self, request: &Message<'_>) -> Errno {
        self.ask(1, request).unwrap_err()
    }

    pub(crate) fn mkdir(&mut self, place: (Fid, &str)) -> Fid {
        let fid = self.next_fid();
        self.must(&requests::mkdir(&ROOT, place, fid));
        fid
    }

    /// Creates a regular file with an object, and leaves it closed.
    pub(crate) fn touch(&mut self, who: &Caller, place: (Fid, &str)) -> Fid {
        let fid = self.next_fid();
        let flags = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRITE;
        let opened = self.must(&requests::open(who, place, fid, flags));
        self.close(1, fid, opened.body().open_handle);
        fid
    }

    /// Opens a file that exists for the first client.
    pub(crate) fn open(&mut self, place: (Fid, &str), flags: OpenFlags) -> Handle {
        self.open_by(1, place, flags)
    }

    pub(crate) fn open_by(&mut self, export: u64, place: (Fid, &str), flags: OpenFlags) -> Handle {
        let request = requests::open(&ROOT, place, Fid::default(), flags);
        self.ask(export, &request).unwrap().body().open_handle
    }

    pub(crate) fn close(&mut self, export: u64, file: Fid, handle: Handle) -> MdtBody {
        self.ask(export, &requests::close(file, handle, SetAttr::default())).unwrap().body()
    }

    /// Returns the file that root finds; `None`: there is none.
    pub(crate) fn find(&mut self, place: (Fid, &str)) -> Option<Fid> {
        let found = self.must(&requests::lookup(&ROOT, place));
        found.disposition.has(Disposition::LOOKUP_POS).then(|| found.body().fid)
    }

    /// Returns the attributes of a file.
    pub(crate) fn getattr(&mut self, file: Fid) -> Result<MdtBody, Errno> {
        self.ask(1, &requests::getattr(file)).map(|reply| reply.body())
    }

    /// Returns the object of a file, if it has a layout.
    pub(crate) fn object(&mut self, file: Fid) -> Option<u32> {
        object_of(self.must(&requests::getattr(file)).layout())
    }

    /// Returns the records of the changelog behind a number, as they are kept: a number of a transaction and a
    /// place are before each.
    pub(crate) fn changes(&self, after: u64) -> Vec<Changelog> {
        let from = (after + 1).to_be_bytes();
        let from = Bound::Included(&from[..]);
        let kept = self.store.scan(CHANGES, from, Bound::Unbounded, 1 << 20).unwrap();
        let decode = |(_, value): &(Vec<u8>, fulmar_store::Value)| {
            Changelog::decode(&value[12..], Order::Little).unwrap()
        };
        kept.iter().map(decode).collect()
    }

    /// Returns what became of all objects.
    pub(crate) fn fates(&self) -> BTreeMap<u32, Fate> {
        let all = self.store.scan(OBJECTS, Bound::Unbounded, Bound::Unbounded, 1 << 20).unwrap();
        let fate = |(key, value): &(Vec<u8>, fulmar_store::Value)| {
            (u32::from_be_bytes(key[..].try_into().unwrap()), Fate::decode(value))
        };
        all.iter().map(fate).collect()
    }

    /// Returns the pages of a directory from a place on.
    pub(crate) fn pages(
        &mut self,
        directory: Fid,
        hash: u64,
        bytes: u32,
    ) -> Result<Vec<directory::DirectoryPage>, Errno> {
        let request = requests::readpage(directory, hash, bytes);
        let xid = self.next_xid();
        let call = call(1, xid, &request);
        let pages = self.mdt.readpage(&call)?;
        assert_eq!(pages.reply.body.status, Status::OK);
        assert_eq!(pages.bytes.len() % directory::DirectoryPage::LEN, 0);
        let pages = pages.bytes.chunks(directory::DirectoryPage::LEN);
        Ok(pages.map(|page| Content::decode(page, Order::Little).unwrap()).collect())
    }

    /// Returns all entries of a directory from a place on.
    pub(crate) fn list(&mut self, directory: Fid, mut hash: u64) -> Vec<DirectoryEntry> {
        let mut entries: Vec<DirectoryEntry> = vec![];
        loop {
            let pages = self.pages(directory, hash, 1 << 20).unwrap();
            hash = pages.last().unwrap().hash_end;
            entries.extend(pages.into_iter().flat_map(|page| page.entries));
            if hash == directory::DirectoryPage::END {
                return entries;
            }
        }
    }

    /// Returns the names in a directory but `.` and `..`.
    pub(crate) fn names(&mut self, directory: Fid) -> Vec<String> {
        let entries = self.list(directory, 0).into_iter();
        let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort();
        names
    }
}
