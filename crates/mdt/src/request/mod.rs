//! Requests of clients, as messages.

mod attributes;
mod close;
mod connect;
mod execute;
mod getattr;
mod hsm;
mod info;
mod layout;
mod llog;
mod open;
mod plan;
mod quota;
mod readdir;
mod reint;
mod rmfid;
mod sequences;
mod swap;
mod xattr;

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::Disposition;
use fulmar_lustre_wire::message::Message;
pub use fulmar_target::Answer;

pub use plan::Target;
pub use readdir::Pages;

/// What was done for an intent. Spec: mdt-ost §5.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentReply {
    /// The reply, without its lock.
    pub reply: Message<'static>,
    /// How far it went.
    pub disposition: Disposition,
    /// Why not further.
    pub result: Result<(), Errno>,
}
