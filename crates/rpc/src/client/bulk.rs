//! The descriptors of bulk data, from their posts until LNet has released them.
//! Spec: ptlrpc-ldlm-mgs §3.4.

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Event, EventKind, Md, MdOptions, Me, MePosition, Memory, Op, ServiceOutput};
use fulmar_lnet_wire::ProcessId;

use super::{Client, Descriptor, ImportId, Part};
use crate::bulk::Direction;
use crate::import::{BulkResult, PostedBulk, TransmissionId};

/// The bulk data of a transmission that LNet uses.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The parts that LNet uses, by their places in the table of descriptors.
    parts: Vec<u64>,
    moved: BulkResult,
}

impl Client {
    /// Posts a match entry for each part, only for the node of the target.
    pub(super) fn post_bulk(
        &mut self,
        (import, transmission): (ImportId, TransmissionId),
        to: ProcessId,
        posted: &PostedBulk,
    ) {
        let PostedBulk { bulk, first_bits } = posted;
        let options = match bulk.direction() {
            Direction::ToServer => MdOptions::OP_GET,
            Direction::ToClient => MdOptions::OP_PUT,
        };
        let mut parts = Vec::with_capacity(bulk.parts().len());
        for (&span, match_bits) in bulk.parts().iter().zip(*first_bits..) {
            let part = Part::Bulk;
            let user = self.posted.insert(Descriptor {
                import,
                transmission,
                part,
                md: None,
                is_withdrawn: false,
            });
            parts.push(user);
            let (match_id, position) = (to, MePosition::After);
            let me = Me { match_id, match_bits, ignore_bits: 0, unlink: true, position };
            let md = Md {
                buffer: span.buffer,
                offset: span.offset,
                len: span.len.into(),
                threshold: Some(1),
                options,
                max_size: 0,
                auto_unlink: true,
                user,
            };
            let attach = Op::Attach { portal: bulk.portal(), me, md, memory: Memory::Buffer };
            self.outputs.push_back(ServiceOutput::Post(attach));
        }
        let moved = BulkResult { bytes: 0, result: Ok(()) };
        self.transfers.insert((import, transmission), Transfer { parts, moved });
    }

    /// Unlinks the parts of a transmission that are not used yet.
    pub(super) fn withdraw_bulk(&mut self, import: ImportId, transmission: TransmissionId) {
        let Some(transfer) = self.transfers.get(&(import, transmission)) else { return };
        for &part in &transfer.parts {
            let Some(posted) = self.posted.get_mut(part) else { continue };
            posted.is_withdrawn = true;
            if let Some(md) = posted.md {
                self.outputs.push_back(ServiceOutput::Post(Op::Unlink(md)));
            }
        }
    }

    /// Handles an event of a part.
    pub(super) fn handle_bulk_event(&mut self, now: Time, posted: Descriptor, event: &Event) {
        let result = match event.kind {
            EventKind::Unlink => Err(Errno::ECANCELED),
            _ => event.status,
        };
        let bytes = if event.status.is_ok() { event.mlength } else { 0 };
        if let Some(transfer) = self.transfers.get_mut(&(posted.import, posted.transmission)) {
            transfer.moved.bytes += u64::from(bytes);
            transfer.moved.result = transfer.moved.result.and(result);
        }
        if event.unlinked {
            self.end_part(now, posted, event.user);
        }
    }

    /// Notes that LNet does not use a part any more, and reports the last one to its import.
    pub(super) fn end_part(&mut self, now: Time, posted: Descriptor, user: u64) {
        let key = (posted.import, posted.transmission);
        let Some(transfer) = self.transfers.get_mut(&key) else { return };
        transfer.parts.retain(|&part| part != user);
        if !transfer.parts.is_empty() {
            return;
        }
        let moved = transfer.moved;
        self.transfers.remove(&key);
        self.with(posted.import, |import, xids| import.handle_bulk(now, xids, key.1, moved));
    }
}
