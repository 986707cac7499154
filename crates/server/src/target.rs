//! What a kind of server implements.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::{Config as LockConfig, Features};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{OstLvb, ResourceId};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::export::Eviction;
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::Request;
use fulmar_store::StoreError;

use crate::context::{Context, Lock};

/// An operation under way.
pub type Operation<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A target of a server.
pub trait Target: Send + Sync + 'static {
    /// Executes a request, and returns its answer; an error is an answer without buffers. Converts and
    /// cancels of locks do not come here. An enqueue without an intent is [`enqueue`](crate::enqueue).
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>>;

    /// Returns what concerns the locks of a client that connects.
    fn features(&self, request: &Request) -> Features {
        let _ = request;
        Features::default()
    }

    /// Handles the end of a client: it has disconnected (`None`) or was evicted.
    fn gone(
        self: Arc<Self>,
        context: Context,
        export: Handle,
        why: Option<Eviction>,
    ) -> Operation<()> {
        let _ = (context, export, why);
        Box::pin(async {})
    }

    /// Records how long the reply to a request took from the time at which it came.
    fn answered(&self, request: &Request, reply: &Message<'_>, took: Duration) {
        let _ = (request, reply, took);
    }

    /// Returns the last transaction on disk as clients know it; `None` if its clients replay nothing.
    fn last_committed(&self) -> Option<u64> {
        None
    }

    /// Returns why its storage has ended, if it has: nothing that is not on disk yet ever will be.
    fn ended(&self) -> Option<StoreError> {
        None
    }

    /// Handles the end of its recovery.
    fn recovered(self: Arc<Self>, context: Context) -> Operation<()> {
        let _ = context;
        Box::pin(async {})
    }

    /// Returns the attributes of an object that its locks carry.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read.
    fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        let _ = resource;
        Err(Errno::ENOENT)
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// A reply.
    Reply(Message<'static>),
    /// A reply about a change that these locks protect until the client knows of it, or it is on disk.
    Difficult(Message<'static>, Vec<Lock>),
    /// None: the client sends the request again.
    None,
}

/// How a target takes part.
pub struct TargetsConfig {
    /// Its name in the log.
    pub name: String,
    /// What executes its requests.
    pub target: Arc<dyn Target>,
    /// Its kind.
    pub kind: TargetKind,
    /// Its locks.
    pub locks: LockConfig,
    /// The key of the handles of its locks, which is random and new at each start.
    pub key: u128,
}

impl fmt::Debug for TargetsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TargetsConfig of a {:?}", self.kind)
    }
}
