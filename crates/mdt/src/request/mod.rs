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
use fulmar_lustre_wire::message::{Message, MessageFlags};

use crate::mdt::Call;

pub use plan::Target;
pub use readdir::Pages;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The reply. Its status may be an error.
    pub reply: Message<'static>,
    /// The transaction of the store that must be durable before the reply is sent.
    pub durable: Option<u64>,
}

impl Answer {
    pub(crate) fn new(reply: Message<'static>) -> Self {
        Self { reply, durable: None }
    }
}

/// What was done for an intent. Spec: mdt-ost §5.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The reply, without its lock.
    pub reply: Message<'static>,
    /// How far it went.
    pub disposition: Disposition,
    /// Why not further.
    pub result: Result<(), Errno>,
}

impl Call<'_> {
    /// Returns whether the client repeats what it did before a restart.
    pub(crate) fn is_replay(&self) -> bool {
        self.message.body.flags.has(MessageFlags::REPLAY)
    }
}
