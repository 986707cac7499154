//! An OST with clients that send it requests, without a network.

use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::{fs, io};

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, Format, IO_OBJECTS, NIOBUFS, OST_BODY, OST_CONNECT, OST_CREATE,
    OST_READ, OST_WRITE,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{
    ChecksumTypes, IoObject, MaxBrw, Niobuf, NiobufFlags, Obdo, ObdoFlags, OstId,
};
use fulmar_lustre_wire::{Fid, Handle, List, Status, Uuid};
use fulmar_ost::{Answer, Call, Holder, Ost, Room, Settings};
use fulmar_store::{Policy, Sink, Source, Store};

/// The sequence of the objects.
const SEQ: u64 = 0x2_4000_0400;
/// The time of all requests.
pub(crate) const NOW: i64 = 1_795_184_574;

pub(crate) struct Rig {
    pub(crate) ost: Ost,
    pub(crate) store: Arc<Store>,
    xid: u64,
}

/// Bytes as the memory of a transfer.
pub(crate) struct Memory(pub(crate) Vec<u8>);

impl Source for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn write_to(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        fs::File::from(file.try_clone_to_owned()?).write_all_at(&self.0, offset)
    }

    fn copy(&self) -> Vec<u8> {
        self.0.clone()
    }
}

impl Sink for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_from(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
        let file = fs::File::from(file.try_clone_to_owned()?);
        file.read_exact_at(&mut self.0[..len as usize], offset).map(|()| len)
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.0[..bytes.len()].copy_from_slice(bytes);
    }
}

impl Room for Memory {
    fn clear(&mut self, from: u64) {
        self.0[from as usize..].fill(0);
    }
}

/// What a current client asks for.
pub(crate) fn asked() -> ConnectData {
    let flags = ConnectFlags::GRANT
        .with(ConnectFlags::SRVLOCK)
        .with(ConnectFlags::VERSION)
        .with(ConnectFlags::BRW_SIZE)
        .with(ConnectFlags::AT)
        .with(ConnectFlags::CKSUM)
        .with(ConnectFlags::FID)
        .with(ConnectFlags::FULL20)
        .with(ConnectFlags::MAXBYTES)
        .with(ConnectFlags::GRANT_PARAM)
        .with(ConnectFlags::LVB_TYPE)
        .with(ConnectFlags::SHORTIO)
        .with(ConnectFlags::PINGLESS)
        .with(ConnectFlags::FLAGS2);
    ConnectData {
        flags,
        flags2: ConnectFlags2::INC_XID.with(ConnectFlags2::LSEEK),
        grant: 128 << 20,
        brw_size: 64 << 20,
        checksums: ChecksumTypes(0xf7),
        ..ConnectData::default()
    }
}

/// What an MDT asks for.
pub(crate) fn asked_by_mdt() -> ConnectData {
    let flags = ConnectFlags::MDS
        .with(ConnectFlags::INDEX)
        .with(ConnectFlags::SKIP_ORPHAN)
        .with(ConnectFlags::FULL20)
        .with(ConnectFlags::FID);
    ConnectData { flags, ..ConnectData::default() }
}

pub(crate) fn id(oid: u32) -> OstId {
    OstId::Fid(Fid { seq: SEQ, oid, version: 0 })
}

/// Returns the body of a request about an object.
pub(crate) fn about(oid: u32) -> Obdo {
    Obdo { valid: Valid::FLID | Valid::FLGROUP, id: id(oid), ..Obdo::default() }
}

pub(crate) fn range(offset: u64, len: u32, flags: NiobufFlags) -> Niobuf {
    Niobuf { offset, len, flags }
}

/// Returns a request for ranges of an object.
pub(crate) fn transfer(
    format: &'static Format,
    body: &Obdo,
    ranges: &[Niobuf],
) -> Message<'static> {
    let is_short = body.flags.flags.has(ObdoFlags::SHORT_IO);
    let max_brw = if is_short { MaxBrw(0xffff_0000) } else { MaxBrw::new(4) };
    let object = IoObject { id: body.id, max_brw, ranges: ranges.len() as u32 };
    Message::request(format)
        .with(&OST_BODY, body)
        .with(&IO_OBJECTS, &List(vec![object]))
        .with(&NIOBUFS, &List(ranges.to_vec()))
}

impl Rig {
    pub(crate) fn new() -> Self {
        let store = Store::memory(b"OST", Policy::default());
        Self::on(Arc::new(store), Settings::default())
    }

    /// Returns one whose objects up to this one exist.
    pub(crate) fn with_objects(last: u32) -> Self {
        let mut rig = Self::new();
        rig.connect(1, "mdt", asked_by_mdt()).unwrap();
        rig.connect(2, "client", asked()).unwrap();
        rig.create(last);
        rig
    }

    pub(crate) fn on(store: Arc<Store>, settings: Settings) -> Self {
        let ost = Ost::start(store.clone(), settings).unwrap();
        Self { ost, store, xid: 0x6b00_5767_0000_0000 }
    }

    /// Starts again on the same data. Clients are to connect again.
    pub(crate) fn restart(&mut self, store: Arc<Store>, settings: Settings) {
        self.ost = Ost::start(store.clone(), settings).unwrap();
        self.store = store;
    }

    pub(crate) fn next_xid(&mut self) -> u64 {
        self.xid += 128;
        self.xid
    }

    pub(crate) fn connect(
        &mut self,
        export: u64,
        name: &str,
        asked: ConnectData,
    ) -> Result<ConnectData, Errno> {
        let request = Message::request(&OST_CONNECT)
            .with(&CLIENT_UUID, &Uuid::new(name).unwrap())
            .with(&CONNECT_DATA, &asked);
        let answer = self.send(export, &request)?;
        Ok(answer.reply.require(&CONNECT_DATA).unwrap())
    }

    /// Creates objects as an MDT does.
    pub(crate) fn create(&mut self, last: u32) -> Obdo {
        let body = Obdo { valid: Valid::FLGROUP, id: id(last), ..Obdo::default() };
        let (status, body) = self.ask(1, &OST_CREATE, &body);
        assert_eq!(status, Status::OK);
        body
    }

    pub(crate) fn send(&mut self, export: u64, request: &Message<'_>) -> Result<Answer, Errno> {
        let xid = self.next_xid();
        self.ost.execute(&Call {
            export: Handle(export),
            nid: Nid::LOOPBACK,
            xid,
            now: NOW,
            message: request,
        })
    }

    /// Sends a request with a body, and returns status and body of the reply.
    pub(crate) fn ask(
        &mut self,
        export: u64,
        format: &'static Format,
        body: &Obdo,
    ) -> (Status, Obdo) {
        let request = Message::request(format).with(&OST_BODY, body);
        match self.send(export, &request) {
            Ok(answer) => (answer.reply.body.status, answer.reply.require(&OST_BODY).unwrap()),
            Err(errno) => (Status::failed(errno), Obdo::default()),
        }
    }

    /// Writes by bulk.
    pub(crate) fn write(
        &mut self,
        body: &Obdo,
        ranges: &[Niobuf],
        data: &[u8],
    ) -> Result<Answer, Errno> {
        let request = transfer(&OST_WRITE, body, ranges);
        let xid = self.next_xid();
        self.write_call(
            &Call { export: Handle(2), nid: Nid::LOOPBACK, xid, now: NOW, message: &request },
            data,
        )
    }

    pub(crate) fn write_call(&self, call: &Call<'_>, data: &[u8]) -> Result<Answer, Errno> {
        let transfer = self.ost.prepare(call)?.unwrap();
        assert_eq!(transfer.len(), data.len() as u64);
        let mut rest = data;
        let memories: Vec<Memory> = transfer
            .ranges()
            .iter()
            .map(|range| {
                let (now, later) = rest.split_at(range.len as usize);
                rest = later;
                Memory(now.to_vec())
            })
            .collect();
        let sources: Vec<&dyn Source> = memories.iter().map(|memory| memory as _).collect();
        let checksum = transfer.checksum().map(|mut checksum| {
            checksum.update(data);
            checksum.finish()
        });
        self.ost.write(call, transfer, &sources, checksum)
    }

    /// Reads by bulk. Returns the reply and the data.
    pub(crate) fn read(
        &mut self,
        body: &Obdo,
        ranges: &[Niobuf],
    ) -> Result<(Answer, Vec<u8>), Errno> {
        let request = transfer(&OST_READ, body, ranges);
        let xid = self.next_xid();
        self.read_call(&Call {
            export: Handle(2),
            nid: Nid::LOOPBACK,
            xid,
            now: NOW,
            message: &request,
        })
    }

    pub(crate) fn read_call(&self, call: &Call<'_>) -> Result<(Answer, Vec<u8>), Errno> {
        let transfer = self.ost.prepare(call)?.unwrap();
        let lens = transfer.ranges().iter().map(|range| range.len as usize);
        // What was in the memory before must not be sent.
        let mut memories: Vec<Memory> = lens.map(|len| Memory(vec![0xee; len])).collect();
        let mut rooms: Vec<&mut dyn Room> = memories.iter_mut().map(|memory| memory as _).collect();
        let reading = self.ost.read(transfer, &mut rooms)?;
        let parts = memories.iter().zip(reading.lens());
        let data = parts.flat_map(|(memory, len)| memory.0[..len as usize].to_vec());
        let data: Vec<u8> = data.collect();
        let checksum = reading.checksum().map(|mut checksum| {
            checksum.update(&data);
            checksum.finish()
        });
        Ok((reading.answer(call, checksum), data))
    }
}
