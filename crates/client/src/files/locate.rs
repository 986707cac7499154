//! Which MDT has a file, and the numbers of new files. Spec: mdt-ost §2.5, §2.6.

use fulmar_base::Errno;
use fulmar_lustre_wire::fld::FldOp;
use fulmar_lustre_wire::format::{FLD_OP, FLD_QUERY, SEQ_OP, SEQ_QUERY, SEQ_RANGE};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
use fulmar_lustre_wire::{Fid, portal};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use super::mount::Sequence;
use crate::machine::context::Context;

/// The length of a [`SeqRange`].
const RANGE_LEN: usize = 24;
/// The last object of a sequence.
const OID_MAX: u32 = 0x2_0000;

impl Context {
    /// Returns the import of the MDT that has a file. One round trip if its sequence is not known.
    pub(crate) async fn mdt(&self, fid: Fid) -> Result<ImportId, Errno> {
        let first = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(mdt) = mount.mdt_of(fid) {
                return Ok(mdt);
            }
            mount.mdts.get(&0).copied().ok_or(Errno::ENODEV)?
        };
        let range = SeqRange { start: fid.seq, kind: SeqKind::ANY, ..SeqRange::default() };
        let message =
            Message::request(&FLD_QUERY).with(&FLD_OP, &FldOp::LOOKUP).with(&SEQ_RANGE, &range);
        let request =
            Request::new(message, len_with(&[Body::LEN, RANGE_LEN])).at(portal::FLD_REQUEST);
        let reply = self.request(first, request).await?;
        let range = reply.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        mount.locations.retain(|known| !known.contains(range.start));
        mount.locations.push(range);
        mount.mdt_of(fid).ok_or(Errno::ENODEV)
    }

    /// Returns the FID of a new file of an MDT. One round trip for the first one, and for each 131,072.
    pub(crate) async fn new_fid(&self, mdt: ImportId) -> Result<Fid, Errno> {
        if let Some(fid) = self.next_fid(mdt)? {
            return Ok(fid);
        }
        let message = Message::request(&SEQ_QUERY)
            .with(&SEQ_OP, &SeqOp::ALLOC_META)
            .with(&SEQ_RANGE, &SeqRange::default());
        let request =
            Request::new(message, len_with(&[Body::LEN, RANGE_LEN])).at(portal::SEQ_METADATA);
        let reply = self.request(mdt, request).await?;
        let range: SeqRange = reply.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        {
            let mut core = self.core();
            let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            // Somebody else may have asked at the same time; then this one is not needed.
            let sequence = Sequence { seq: range.start, last: 0 };
            match mount.sequences.get(&mdt) {
                Some(known) if known.last < OID_MAX => {}
                _ => drop(mount.sequences.insert(mdt, sequence)),
            }
            let index = mount.mdts.iter().find(|(_, import)| **import == mdt);
            if let Some((&index, _)) = index {
                let end = range.end.max(range.start + 1);
                mount.locations.push(SeqRange { end, index, ..range });
            }
        }
        self.next_fid(mdt)?.ok_or(Errno::EIO)
    }

    fn next_fid(&self, mdt: ImportId) -> Result<Option<Fid>, Errno> {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let sequence = mount.sequences.get_mut(&mdt).filter(|one| one.last < OID_MAX);
        Ok(sequence.map(|sequence| {
            sequence.last += 1;
            Fid { seq: sequence.seq, oid: sequence.last, version: 0 }
        }))
    }
}
