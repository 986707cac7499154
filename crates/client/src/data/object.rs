//! Objects: where they are, how requests describe them, and the locks on their data.

use fulmar_base::Errno;
use fulmar_ldlm::client::{Covered, Wanted};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::ldlm::{Extent, InodeBits, LockMode, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{ChecksumKind, ChecksumTypes, Obdo, OstId};
use fulmar_lustre_wire::{Fid, Handle, portal};
use fulmar_rpc::client::ImportId;

use crate::files::layout::{FileLayout, Piece};
use crate::files::request::{bits, resource};
use crate::files::size::extent_resource;
use crate::machine::context::{Acquired, Context};
use crate::machine::enqueue::plain;

/// The length of an [`Obdo`].
pub(crate) const OBDO_LEN: usize = 208;
/// Locks are on whole pages, also those of servers with large ones. Spec: ptlrpc-ldlm-mgs §24.2.
const PAGE: u64 = 4096;
/// The most bytes of a transfer.
const BRW_MAX: u64 = 16 << 20;

/// An object of a file, or its data on the MDT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) file: Fid,
    pub(crate) import: ImportId,
    pub(crate) id: OstId,
    /// The places of the component and of the stripe.
    pub(crate) place: (usize, usize),
    pub(crate) is_on_mdt: bool,
}

/// A contiguous range of an object, and the pieces of the file that are in it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) object: Object,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) pieces: Vec<Piece>,
}

impl Object {
    /// Returns the portal of reads and writes.
    pub(crate) fn io_portal(&self) -> u32 {
        if self.is_on_mdt { portal::MDS_IO } else { portal::OST_IO }
    }

    /// Returns the portal of other requests for it.
    pub(crate) fn portal(&self) -> u32 {
        if self.is_on_mdt { portal::MDS_REQUEST } else { portal::OST_REQUEST }
    }

    pub(crate) fn key(&self) -> (ImportId, ResourceId) {
        (self.import, self.id.resource())
    }
}

impl Context {
    /// Returns all objects of a file.
    pub(crate) async fn objects(
        &self,
        fid: Fid,
        layout: &FileLayout,
    ) -> Result<Vec<Object>, Errno> {
        let mut all = Vec::new();
        for (component, one) in layout.components.iter().enumerate() {
            if one.is_on_mdt() {
                let import = self.mdt(fid).await?;
                let (id, place) = (OstId::Fid(fid), (component, 0));
                all.push(Object { file: fid, import, id, place, is_on_mdt: true });
            }
        }
        for (component, stripe, object) in layout.objects() {
            let (import, place) = (self.ost(object.ost)?, (component, stripe));
            all.push(Object { file: fid, import, id: object.id, place, is_on_mdt: false });
        }
        Ok(all)
    }

    /// Returns the ranges of objects that a range of a file is in, each at most as long as a transfer.
    pub(crate) async fn runs(
        &self,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u64),
    ) -> Result<Vec<Run>, Errno> {
        let objects = self.objects(fid, layout).await?;
        let mut runs: Vec<Run> = Vec::new();
        for piece in layout.pieces(offset, len) {
            let place = (piece.component, piece.stripe);
            // A component without objects is a hole.
            let Some(object) = objects.iter().find(|one| one.place == place).copied() else {
                continue;
            };
            let max = self.transfer_max(object.import);
            let mut rest = piece;
            while rest.len > 0 {
                let open = runs.iter_mut().rev().find(|run| run.object.place == place);
                let open = open.filter(|run| {
                    // Transfers begin at multiples of their size, as far as possible.
                    let end = run.offset + run.len;
                    end == rest.object_offset && !end.is_multiple_of(max) && run.len < max
                });
                let room = max - rest.object_offset % max;
                let len = rest.len.min(room);
                let part = Piece { len, ..rest };
                match open {
                    Some(run) => {
                        run.len += len;
                        run.pieces.push(part);
                    }
                    None => {
                        let offset = rest.object_offset;
                        runs.push(Run { object, offset, len, pieces: vec![part] });
                    }
                }
                rest.offset += len;
                rest.object_offset += len;
                rest.len -= len;
            }
        }
        Ok(runs)
    }

    /// Returns what a target has granted.
    pub(crate) fn granted(&self, import: ImportId) -> ConnectData {
        let mut core = self.core();
        core.client().import(import).map(|one| *one.granted()).unwrap_or_default()
    }

    /// Returns the most bytes of a transfer: a power of two.
    fn transfer_max(&self, import: ImportId) -> u64 {
        match u64::from(self.granted(import).brw_size) {
            0 => 1 << 20,
            size => (1 << size.ilog2()).clamp(PAGE, BRW_MAX),
        }
    }

    /// Locks a range of an object. No round trip if a lock is held, else one.
    pub(crate) async fn lock_range(
        &self,
        object: &Object,
        mode: LockMode,
        (start, end): (u64, u64),
    ) -> Result<Acquired, Errno> {
        let (resource, policy) = match object.is_on_mdt {
            true => (resource(object.file), bits(InodeBits::DOM)),
            false => {
                let end = if end == u64::MAX { end } else { (end - 1) | (PAGE - 1) };
                let extent = Extent { start: start & !(PAGE - 1), end, gid: 0 };
                (extent_resource(object.id.resource()), extent.into())
            }
        };
        let is_held = {
            let core = self.core();
            let peer = core.peer(object.import).ok_or(Errno::ENODEV)?;
            peer.locks.find(&resource, mode, policy).is_some()
        };
        // Locks of this client that are in the way need not be called back.
        let early = match is_held {
            true => Vec::new(),
            false => self.early(object.import, &[Covered { resource, mode, policy }]).await,
        };
        let wanted = Wanted { early, ..Wanted::new(resource, mode, policy) };
        let acquired = self.acquire(object.import, wanted, Some(Box::new(plain))).await?;
        if !object.is_on_mdt {
            self.object_lvb(object.file, object.key(), &acquired)?;
        }
        Ok(acquired)
    }

    /// Returns the target's handle of a lock, by which it gives more time for transfers under it.
    pub(crate) fn server_handle(&self, object: &Object, acquired: &Acquired) -> Handle {
        let core = self.core();
        let Some((peer, held)) = core.peer(object.import).zip(acquired.held.as_ref()) else {
            return Handle::NONE;
        };
        peer.locks.server_handle(held.id())
    }
}

/// Returns how requests describe an object.
pub(crate) fn described(
    file: Fid,
    layout: &FileLayout,
    (component, stripe): (usize, usize),
    id: OstId,
) -> Obdo {
    let part = &layout.components[component];
    let own = Obdo { valid: Valid::FLID | Valid::FLGROUP, id, ..Obdo::default() };
    if part.is_on_mdt() {
        return own;
    }
    Obdo {
        valid: own.valid | Valid::FLFID | Valid::FLPARENT | Valid::FLOSTLAYOUT,
        parent_seq: file.seq,
        parent_oid: file.oid,
        parent_version: file.version,
        stripe_index: stripe as u32,
        layout: part.described(),
        ..own
    }
}

/// Returns the kind of checksums of transfers; none if that was not agreed on. Spec: mdt-ost §18.3.
pub(crate) fn checksum_kind(granted: &ConnectData) -> ChecksumKind {
    if !granted.flags.has(ConnectFlags::CKSUM) {
        return ChecksumKind::ADLER;
    }
    let kinds = [
        (ChecksumTypes::CRC32C, ChecksumKind::CRC32C),
        (ChecksumTypes::T10IP4K, ChecksumKind::T10IP4K),
        (ChecksumTypes::T10IP512, ChecksumKind::T10IP512),
        (ChecksumTypes::T10CRC4K, ChecksumKind::T10CRC4K),
        (ChecksumTypes::T10CRC512, ChecksumKind::T10CRC512),
        (ChecksumTypes::CRC32, ChecksumKind::CRC32),
    ];
    let known = kinds.into_iter().find(|(kind, _)| granted.checksums.has(*kind));
    known.map_or(ChecksumKind::ADLER, |(_, kind)| kind)
}
