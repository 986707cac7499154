//! The reads and writes of the cache as requests, which are repeated if that may help.
//! Spec: mdt-ost §17.7, §19.3.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_data::stripes::Target;
use fulmar_data::{Direction, Reply, Rpc};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{KEY, OST_BODY, OST_GRANT_SHRINK};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{ChecksumKind, IoObject, MaxBrw, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, Key};
use fulmar_net::Memory;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, State};

use super::drive::Errand;
use super::object::{OBDO_LEN, Object, checksum_kind, described};
use crate::files::close::CloseReport;
use crate::machine::context::Context;

/// Shorter transfers are in the message. Spec: mdt-ost §17.5.
const SHORT_MAX: u64 = 16 << 10;
/// How often a transfer is repeated that has failed. Spec: mdt-ost §17.7.
const TRIES: u64 = 10;
/// The bytes of which a checksum is made at a time.
const CHUNK: usize = 64 << 10;

/// A read or a write of the cache, with what it needs here.
pub(super) struct Transfer {
    pub(super) rpc: Rpc,
    pub(super) object: Object,
    /// All of its memory.
    pub(super) memory: Memory,
    pub(super) granted: ConnectData,
    /// Whether there is a checksum of the data.
    pub(super) is_checked: bool,
    /// Its target's handle of a lock that covers it.
    pub(super) handle: Handle,
}

/// The end of one attempt.
pub(super) enum Attempt {
    /// How many bytes were read, and whether the memory of a write is kept.
    Done(u64, bool),
    /// The data were damaged on the way; for a read, the checksum of what has arrived.
    Damaged(u32),
    Failed(Errno),
}

impl Transfer {
    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    pub(super) fn is_short(&self) -> bool {
        self.len() <= SHORT_MAX && self.granted.flags.has(ConnectFlags::SHORTIO)
    }

    pub(super) fn start(&self) -> u64 {
        self.rpc.ranges.first().map_or(0, |range| range.start)
    }

    /// Returns where the data begin in a page.
    pub(super) fn in_page(&self) -> u32 {
        (self.start() % 4096) as u32
    }

    pub(super) fn checksum_kind(&self) -> ChecksumKind {
        checksum_kind(&self.granted)
    }

    /// Returns the object of the request. Spec: mdt-ost §17.1.
    pub(super) fn io_object(&self) -> IoObject {
        let max_brw = if self.is_short() {
            MaxBrw::new(1 << 16)
        } else {
            MaxBrw::new((self.granted.brw_size >> 20).max(1))
        };
        IoObject { id: self.object.id, max_brw, ranges: self.rpc.ranges.len() as u32 }
    }

    /// Says what the client has of what it was granted. Spec: mdt-ost §19.3.
    pub(super) fn announce(&self, body: &mut Obdo) {
        if !self.granted.flags.has(ConnectFlags::GRANT) {
            return;
        }
        let figures = self.rpc.grant;
        body.valid = body.valid | Valid::FLGRANT | Valid::FLBLOCKS;
        (body.grant, body.blocks) = (figures.grant, figures.dirty);
        (body.mode, body.misc) = (figures.undirty, figures.dropped);
        if self.granted.flags.has(ConnectFlags::GRANT_PARAM) {
            body.data_version = figures.used;
        }
    }
}

/// Returns the checksum of the first `len` bytes of memory.
pub(super) fn checksum(
    kind: ChecksumKind,
    ranges: impl IntoIterator<Item = (u64, u64)>,
    memory: &Memory,
    len: usize,
) -> Option<u32> {
    let mut sum = Checksum::new(kind, ranges)?;
    let mut chunk = vec![0; CHUNK.min(len)];
    let mut at = 0;
    while at < len {
        let now = &mut chunk[..CHUNK.min(len - at)];
        memory.read_at(at, now);
        sum.update(now);
        at += now.len();
    }
    Some(sum.finish())
}

impl Context {
    /// Does what the caches want of a target.
    pub(crate) async fn run_errand(self, errand: Errand) {
        match errand {
            Errand::Transfer(rpc) => {
                let rpc_of = (rpc.id, rpc.object, rpc.direction);
                let reply = self.transfer(*rpc).await;
                self.core().data_done(self.mount, rpc_of, reply);
            }
            Errand::Shrink(target, bytes) => {
                // Without a connection all grant is accounted anew.
                let _ = self.give_back(target, bytes).await;
            }
            Errand::Close(key, open) => {
                // There is no caller to report it to.
                let _ = self.close_handle(key, &open, CloseReport::default()).await;
            }
        }
    }

    /// Executes a read or a write.
    async fn transfer(&self, rpc: Rpc) -> Reply {
        let mut granted = 0;
        let (result, keeps_data) = match self.prepare(rpc) {
            Ok(transfer) => self.repeat(&transfer, &mut granted).await,
            Err(errno) => (Err(errno), false),
        };
        Reply { result, granted, keeps_data }
    }

    fn prepare(&self, rpc: Rpc) -> Result<Transfer, Errno> {
        let (object, memory) = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            let object = mount.data.objects.get(&rpc.object).ok_or(Errno::EIO)?.object;
            (object, mount.data.gather(&rpc.memory)?)
        };
        let granted = self.granted(object.import);
        let is_checked =
            self.core().peer(object.import).is_none_or(|peer| !peer.shown.has_no_checksums);
        let at = rpc.ranges.first().map_or(0, |range| range.start);
        let handle = self.server_handle(&object, at);
        Ok(Transfer { rpc, object, memory, granted, is_checked, handle })
    }

    /// Attempts a transfer until it is done, or there is no hope.
    async fn repeat(&self, transfer: &Transfer, granted: &mut u64) -> (Result<u64, Errno>, bool) {
        let evictions = self.evictions(transfer.object.import);
        let (mut attempt, mut damaged) = (0, None);
        loop {
            attempt += 1;
            let ended = match transfer.rpc.direction {
                Direction::Read => self.read_once(transfer, damaged, granted).await,
                Direction::Write => self.write_once(transfer, attempt > 1, granted).await,
            };
            let errno = match ended {
                Ok(Attempt::Done(len, keeps_data)) => return (Ok(len), keeps_data),
                Ok(Attempt::Damaged(sum)) if attempt <= TRIES => {
                    damaged = Some(sum);
                    continue;
                }
                Ok(Attempt::Damaged(_)) => return (Err(Errno::EIO), false),
                Ok(Attempt::Failed(errno)) | Err(errno) => errno,
            };
            let may_help = match errno {
                Errno::EINPROGRESS => true,
                Errno::EIO | Errno::EROFS | Errno::ENOMEM | Errno::EAGAIN => attempt < TRIES,
                _ => false,
            };
            if !may_help || self.evictions(transfer.object.import) != evictions {
                return (Err(errno), false);
            }
            self.sleep(Duration::from_secs(attempt.min(TRIES))).await;
        }
    }

    /// Returns how often a target has evicted this client; `None` if it is not used any more.
    pub(super) fn evictions(&self, import: ImportId) -> Option<u64> {
        let core = self.core();
        let peer = core.peer(import)?;
        (!matches!(peer.state, State::Closed(_))).then_some(peer.evictions)
    }

    /// Returns how a request for a transfer describes its object.
    pub(super) fn transfer_body(&self, transfer: &Transfer) -> Result<Obdo, Errno> {
        let object = &transfer.object;
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let file = mount.data.file_of(object.cached).ok_or(Errno::EIO)?;
        let mut body = described(object.file, &file.layout, object.place, object.id);
        body.valid = body.valid | Valid::FLHANDLE | Valid::FLFLAGS;
        body.handle = transfer.handle;
        if transfer.is_checked {
            body.valid = body.valid | Valid::FLCKSUM;
            body.flags.checksum_kind = transfer.checksum_kind();
        }
        if transfer.is_short() {
            body.flags.flags = body.flags.flags | ObdoFlags::SHORT_IO;
        }
        transfer.announce(&mut body);
        Ok(body)
    }

    /// Gives grant back that was not used for a long time. Spec: mdt-ost §19.5.
    async fn give_back(&self, target: Target, bytes: u64) -> Result<(), Errno> {
        let import = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            match target {
                Target::Ost(index) => mount.ost(index)?,
                Target::Mdt(_) => return Ok(()),
            }
        };
        let body = Obdo { valid: Valid::FLGRANT, grant: bytes, ..Obdo::default() };
        let key = Key(b"grant_shrink\0".to_vec());
        let message = Message::request(&OST_GRANT_SHRINK).with(&KEY, &key).with(&OST_BODY, &body);
        let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN]));
        self.request(import, request).await.map(drop)
    }
}
