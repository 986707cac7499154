//! The index of nodemaps: how servers map the users of nodes. Spec: ptlrpc-ldlm-mgs §32.4.

use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::mgs::{
    Nodemap, NodemapEntry, NodemapFlags, NodemapFlags2, NodemapKey, NodemapKind, NodemapRecord,
};
use fulmar_lustre_wire::{Padding, Text};

/// The user and the group of nobody.
const NOBODY: u32 = 65534;
/// What a reader gets as the place to continue at the end.
pub(crate) const END: u64 = 0xffff_ffff_ffff_fffe;

/// Returns the index without nodemaps: the default one, and that they are not active.
pub(crate) fn index() -> IndexPage {
    let default = Nodemap {
        name: Text::new("default").expect("it is short"),
        flags: NodemapFlags(0xb8),
        flags2: NodemapFlags2(0x04),
        squash_projid: NOBODY,
        squash_uid: NOBODY,
        squash_gid: NOBODY,
        ..Nodemap::default()
    };
    let key = |kind| NodemapKey { kind, nodemap: 0, part: 0 };
    let entries = [
        NodemapEntry { key: key(NodemapKind::CLUSTER), record: NodemapRecord::Nodemap(default) },
        NodemapEntry {
            key: key(NodemapKind::GLOBAL),
            record: NodemapRecord::Global { is_active: 0, padding: Padding::default() },
        },
    ];
    IndexPage::new(&entries).expect("two entries fit")
}
