//! The management server: registration of targets, tables of NIDs, nodemaps.

mod config;
mod nid_table;
mod nodemap;
mod target;

pub use config::{ConfigRead, ConfigReadKind, ConfigReadReply, SetParam};
pub use nid_table::{NidTable, NidTableEntry, NidTableNids};
pub use nodemap::{
    Nodemap, NodemapEntry, NodemapFilesetHead, NodemapFilesetPart, NodemapFlags, NodemapFlags2,
    NodemapId, NodemapKey, NodemapKind, NodemapNetmask, NodemapOffset, NodemapRange, NodemapRecord,
    NodemapRoles,
};
pub use target::{TargetFlags, TargetInfo, TargetNids, TargetNidsFlags};
