//! Requests of the kernel under way, by processes that may be killed meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use fulmar_base::Errno;
use fulmar_client::Requester;
use fuser::Request;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::interrupts::Ends;
use crate::replies::Reply;
use crate::state::State;

/// A request, and the thread that waits for it.
#[derive(Debug)]
pub(crate) struct Call {
    state: Arc<State>,
    thread: u32,
}

impl Call {
    pub(crate) fn new(state: &Arc<State>, request: &Request) -> Self {
        Self { state: state.clone(), thread: request.pid() }
    }

    /// Does an operation, and replies: at its end, or as soon as the thread is killed. A result that the kernel does not
    /// learn of is given to `undo`.
    pub(crate) async fn answered<R: Reply, T>(
        self,
        reply: R,
        operation: impl Future<Output = Result<T, Errno>>,
        done: impl FnOnce(R, T),
        undo: impl FnOnce(&State, T),
    ) {
        let reply = Once::new(reply);
        let result = self.interruptible(operation, reply.early()).await;
        match (reply.take(), result) {
            (Some(reply), Ok(result)) => done(reply, result),
            (Some(reply), Err(errno)) => reply.fail(errno),
            (None, Ok(result)) => undo(&self.state, result),
            (None, Err(_)) => {}
        }
    }

    /// The same for an operation that goes on when the thread is killed.
    pub(crate) async fn finished(
        self,
        reply: fuser::ReplyEmpty,
        operation: impl Future<Output = Result<(), Errno>>,
    ) {
        let reply = Once::new(reply);
        let result = self.watched(operation, reply.early()).await;
        match (reply.take(), result) {
            (Some(reply), Ok(())) => reply.ok(),
            (Some(reply), Err(errno)) => reply.fail(errno),
            (None, _) => {}
        }
    }

    /// Does an operation that only reads, and drops it with EINTR as soon as the thread is killed.
    pub(crate) async fn dropped<T>(
        &self,
        operation: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let (sender, killed) = oneshot::channel();
        let end = move || {
            let _ = sender.send(());
        };
        let mut operation = pin!(operation);
        let operation = select(operation.as_mut(), killed);
        match self.interruptible(operation, end).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(Errno::EINTR),
        }
    }

    /// Does an operation, which ends as soon as it can if the thread is killed; first `killed` is called then.
    async fn interruptible<T>(
        &self,
        operation: impl Future<Output = T>,
        killed: impl FnOnce() + Send + 'static,
    ) -> T {
        let requester = Requester::default();
        let (state, waits) = (self.state.clone(), requester.clone());
        let interrupt = move || {
            killed();
            state.file_system.interrupt(&waits);
        };
        self.watched(requester.run(operation), interrupt).await
    }

    /// Does an operation, and calls `killed` if the thread is killed meanwhile.
    async fn watched<T>(
        &self,
        operation: impl Future<Output = T>,
        killed: impl FnOnce() + Send + 'static,
    ) -> T {
        let mut operation = pin!(operation);
        // Most have nothing to wait for.
        let begun = poll_fn(|context| Poll::Ready(operation.as_mut().poll(context)));
        if let Poll::Ready(result) = begun.await {
            return result;
        }
        let _watched = self.state.interrupts.watch(self.thread, Ends::Killed, killed);
        operation.await
    }
}

/// A reply that is sent once.
struct Once<R>(Arc<Mutex<Option<R>>>);

impl<R: Reply> Once<R> {
    fn new(reply: R) -> Self {
        Self(Arc::new(Mutex::new(Some(reply))))
    }

    /// Returns the reply, unless it was sent.
    fn take(&self) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns what replies that the operation was interrupted.
    fn early(&self) -> impl FnOnce() + Send + use<R> {
        let this = Self(self.0.clone());
        move || {
            if let Some(reply) = this.take() {
                reply.fail(Errno::EINTR);
            }
        }
    }
}
