//! Metadata: attributes, changes, opening and closing, and the requests about files as a whole.

mod batch;
mod body;
mod close;
mod hsm;
mod info;
mod open;
mod reint;
mod statfs;
mod valid;

pub use batch::{BatchBuffer, BatchHeader, BatchReply, BatchRequest};
pub use body::{MdtBody, TransientState};
pub use close::{CloseData, IoEpoch};
pub use hsm::{
    HsmAction, HsmCurrentAction, HsmExtent, HsmProgress, HsmRequest, HsmRequestFlags, HsmStateSet,
    HsmStates, HsmUserItem, HsmUserState,
};
pub use info::{
    ChangelogClear, ChangelogFilter, Fid2Path, Fid2PathKey, Fid2PathReply, SwapLayouts,
};
pub use open::{Bias, OpenFlags};
pub use reint::{
    AttrValid, Create, Link, Reint, ReintChange, ReintHead, ReintOp, Rename, Resync, SetAttr,
    SetXattr, SplitOpenFlags, Unlink, XattrFlags,
};
pub use statfs::{Statfs, StatfsState};
pub use valid::Valid;
