//! Data that come with an open, of small files that are on the MDT. Spec: mdt-ost §13.3.

use std::sync::Arc;

use fulmar_lustre_wire::ost::Niobuf;
use fulmar_lustre_wire::{Content, Fid, List};
use fulmar_wire::Order;

use super::layout::FileLayout;
use crate::data::io::ProtectionNotice;
use crate::machine::context::Context;

/// Returns the data in the buffer of a reply, if they are all that the file has on the MDT.
pub(crate) fn whole(buffer: &[u8], size: u64) -> Option<Arc<[u8]>> {
    /// The length of a [`Niobuf`].
    const HEAD: usize = 16;
    let (head, data) = buffer.split_at_checked(HEAD)?;
    let List(ranges) = List::<Niobuf>::decode(head, Order::Little).ok()?;
    let range = ranges.first().filter(|range| range.offset == 0 && range.len > 0)?;
    let data = data.get(..range.len as usize)?;
    (data.len() as u64 == size).then(|| data.into())
}

impl Context {
    /// Returns a range of a file whose data came with an open, as long as the lock on them is held. `None` if
    /// they have to be read. `told`, if somebody keeps them, is called while it is
    /// held, with whether the layout is protected too.
    pub(crate) fn read_inline(
        &self,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u64),
        told: Option<ProtectionNotice<'_>>,
    ) -> Option<Vec<u8>> {
        // Behind them there may be others.
        if layout.objects().next().is_some() {
            return None;
        }
        let core = self.core();
        let inode = core.mounts.get(&self.mount)?.inodes.get(&fid)?;
        let data = inode.inline.as_ref()?;
        let from = usize::try_from(offset).map_or(data.len(), |from| from.min(data.len()));
        let len = usize::try_from(len).map_or(data.len() - from, |len| len.min(data.len() - from));
        if let Some(told) = told {
            told(inode.has_layout(layout));
        }
        Some(data[from..from + len].to_vec())
    }

    /// Forgets data that came with an open, since this client changes the file.
    pub(crate) fn forget_inline(&self, fid: Fid) {
        let mut core = self.core();
        let inode = core.mounts.get_mut(&self.mount).and_then(|mount| mount.inodes.get_mut(&fid));
        if let Some(inode) = inode {
            inode.inline = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_of_a_file_is_kept() {
        let buffer = |offset, len| {
            let range = Niobuf { offset, len, ..Niobuf::default() };
            [List(vec![range]).to_bytes(), b"data".to_vec()].concat()
        };
        assert_eq!(whole(&buffer(0, 4), 4).as_deref(), Some(&b"data"[..]));
        assert_eq!(whole(&buffer(0, 4), 5), None);
        assert_eq!(whole(&buffer(4096, 4), 4100), None);
        assert_eq!(whole(&buffer(0, 5), 5), None);
        assert_eq!((whole(&[0; 16], 0), whole(b"short", 5)), (None, None));
    }
}
