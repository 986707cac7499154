//! The operations under way, and the thread of those that wait.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};

use fulmar_client::blocking;
use futures_channel::mpsc;
use futures_util::StreamExt;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs operations until it and all of them have ended. Each begins on the thread of its request, and is
/// over there if nothing has to be waited for: what is cached costs no change of threads, and the requests to
/// the servers of the others are sent without one.
#[derive(Debug)]
pub(crate) struct Tasks(mpsc::UnboundedSender<Task>);

impl Tasks {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, tasks) = mpsc::unbounded::<Task>();
        let run = move || blocking::wait(tasks.for_each_concurrent(None, |task| task));
        std::thread::Builder::new().name("fulmar-fuse".to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    /// Begins an operation. There are as many as the kernel has requests under way.
    pub(crate) fn begin(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut task: Task = Box::pin(task);
        // The thread polls it again, so no thread has to be woken for this one.
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            // Without the thread the task is dropped, whose reply is EIO then.
            let _ = self.0.unbounded_send(task);
        }
    }
}
