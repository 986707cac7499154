//! The management service as a target.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_lustre_wire::{Opcode, portal};
use fulmar_mgs::Mgs;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::Request;

use crate::context::Context;
use crate::locks::enqueue;
use crate::memory::{Memories, Memory};
use crate::target::{Answer, Operation, Target};

/// A management service, with memory for what it sends as bulk data.
#[derive(Debug)]
pub struct MgsTarget<M: Memory> {
    mgs: Mutex<Mgs>,
    memories: Arc<Memories<M>>,
}

impl<M: Memory> MgsTarget<M> {
    /// Returns the target with these logs.
    pub fn new(mgs: Mgs, memories: Arc<Memories<M>>) -> Arc<Self> {
        Arc::new(Self { mgs: Mutex::new(mgs), memories })
    }

    fn mgs(&self) -> MutexGuard<'_, Mgs> {
        self.mgs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the table of the targets that have started.
    async fn read_table(&self, context: Context, request: &Request) -> Result<Answer, Errno> {
        let (reply, table) = self.mgs().read_table(&request.message)?;
        let moved = self.memories.allocate(request.from.nid, table.len())?;
        moved.memory().write_at(0, &table);
        let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, moved.span(), 0);
        match context.transfer(request, bulk, 1).await {
            Ok(_) => Ok(Answer::Reply(reply)),
            Err(_) => Ok(Answer::None),
        }
    }
}

impl<M: Memory> Target for MgsTarget<M> {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        Box::pin(async move {
            match request.message.body.opcode {
                Opcode::LDLM_ENQUEUE => enqueue(context, &request).await,
                Opcode::MGS_CONFIG_READ => self.read_table(context, &request).await,
                _ => self.mgs().execute(&request.message).map(Answer::Reply),
            }
        })
    }
}
