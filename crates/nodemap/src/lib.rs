//! Nodemaps: who the users of a client are in the file system, by the NID of the client.
//! Spec: ptlrpc-ldlm-mgs §32.4.
//!
//! ```text
//! Nodemaps   all nodemaps, the NIDs of each, whether they are used     changes of an administrator
//!   │ view(NID)                                                         index: records of the MGS
//!   ▼
//! View       what a target asks for one client: ids to the file system and back, access control lists,
//!            what the client may do, and its root directory
//! ```
//!
//! The management service changes them and serves their index; targets read it and make views. A view is
//! found by NID, and an id by a map, each in logarithmic time.
//!
//! [`Nodemaps`] is a value that an administrator changes at the management service, stored and
//! served as the records of its index, and made again by targets from these records. A target keeps
//! what it has read, and asks for the `View` of a client by NID for each request: NIDs are in
//! ordered ranges, ids in ordered maps, so both are logarithmic. Ids are mapped where requests
//! become operations (`Mdt::caller`, `asked_in_fs`, `Ost::body`) and where replies are made
//! (`request::attributes`); all between has ids of the file system. After a change a target asks
//! for all locks back (`handle_revocation`), since clients have cached attributes with other ids.
#![forbid(unsafe_code)]

mod change;
mod fileset;
mod index;
mod map;
mod nodemap;
mod nodemaps;
mod ranges;
mod text;
mod view;

pub use change::{Change, NotUnderstood, Property};
pub use fileset::Fileset;
pub use index::Inconsistent;
pub use map::{IdKind, MappedId};
pub use nodemap::{Nodemap, Role};
pub use nodemaps::Nodemaps;
pub use ranges::Nids;
pub use view::View;
