//! Where the data of files and the entries of directories are: the layouts of files (LOV) and of
//! striped directories (LMV). Little-endian from every peer.

mod composite;
mod directory;
mod file;
mod foreign;
mod kind;
mod stripe;

pub use composite::{Component, ComponentFlags, CompositeHeader, CompositeMd, MirrorState};
pub use directory::{
    DefaultStripe, HashFlags, HashFunction, HashType, LmvHeader, LmvMd, LmvUserHeader, LmvUserMd,
};
pub use file::{LovHeader, LovMd, LovObject, Pattern};
pub use foreign::ForeignMd;
pub use kind::{Layout, LayoutMagic};
pub use stripe::NameStripe;
