//! Running a service that is a pure machine.
//!
//! The machine has a lock of its own, which is held while it handles inputs and while its posts are
//! passed to LNet, so that the order of posts is that of the machine. Actions that follow are
//! executed after that.

use std::fmt;
use std::sync::{Arc, MutexGuard};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lnet::{self as lnet, Bound, Op, ServiceConfig};

use crate::alarm::Alarm;
use crate::batch::Posting;
use crate::failure::catch;
use crate::lock::Lock;
use crate::memory::Memory;
use crate::node::Node;
use crate::queues::Delivery;
use crate::runtime::Message;
use crate::service::{Handler, Service};
use crate::shared::Shared;
use crate::thread::TimeoutHandler;

/// The host of a service that is a machine.
pub trait Host: Send + Sync + 'static {
    /// The machine.
    type Service: lnet::Service<Request: Send> + Send + 'static;

    /// Returns the memory that the machine calls `buffer`.
    fn memory(&self, buffer: BufferId) -> Option<Memory>;

    /// Executes a request of the machine at once. Longer work is returned, and done without the
    /// machine's lock.
    fn handle(
        &self,
        service: &Service,
        machine: &mut Self::Service,
        request: <Self::Service as lnet::Service>::Request,
    ) -> Option<Job<Self::Service>>;

    /// The service, or its node, has ended.
    fn closed(&self) {}
}

/// Work for a machine that is done without its lock. It returns a closure that reports the result.
pub type Job<S> = Box<dyn FnOnce() -> JobReport<S> + Send>;

/// Reports the result of a [`Job`] to its machine.
pub type JobReport<S> = Box<dyn FnOnce(&mut S, Time) + Send>;

/// A machine that runs as a service of a node. Clones are handles to the same one.
pub struct Running<H: Host>(Arc<Inner<H>>);

struct Inner<H: Host> {
    /// Its key in the tables of the threads.
    key: u64,
    service: Service,
    host: H,
    state: Lock<State<H::Service>>,
}

struct State<S> {
    machine: S,
    alarm: Alarm,
}

impl<H: Host> Running<H> {
    /// Opens a service for `machine`, posts `first` and runs it.
    ///
    /// # Errors
    /// Why one of the first posts failed; then the service is closed.
    pub fn start(
        node: &Node,
        config: ServiceConfig,
        machine: H::Service,
        host: H,
        first: impl IntoIterator<Item = Op>,
    ) -> Result<Self, Errno> {
        let shared = &node.0;
        let inner = shared.turn(|core, _, _| {
            let id = core.machine.open_service(config);
            let inner = Arc::new(Inner {
                key: shared.runtime.next_key(),
                service: Service::new(shared.clone(), id),
                host,
                state: Lock::new(State { machine, alarm: Alarm::NONE }),
            });
            shared.queues.lock().open(id, Arc::new(inner.clone()));
            inner
        })?;
        let first: Vec<Posting> = first.into_iter().map(|op| inner.posting(op)).collect();
        let failed = inner.service.post_all(first).into_iter().find_map(Result::err);
        if let Some(errno) = failed {
            inner.service.close();
            return Err(errno);
        }
        inner.with(|_, _| ())?;
        Ok(Self(inner))
    }

    /// Calls the machine, and handles its outputs. Here and when it handles events or its timeouts,
    /// a panic of the machine or of its host fails the node.
    ///
    /// # Errors
    /// EIO if that happens.
    pub fn call<R>(&self, call: impl FnOnce(&mut H::Service, Time) -> R) -> Result<R, Errno> {
        self.0.with(|machine, now| call(machine, now))
    }

    /// Returns the host.
    pub fn host(&self) -> &H {
        &self.0.host
    }

    /// Ends the service; see [`Service::close`].
    pub fn close(&self) {
        self.0.service.close();
    }
}

impl<H: Host> Clone for Running<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: Host> fmt::Debug for Running<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({:?})", self.0.service)
    }
}

impl<H: Host> Inner<H> {
    /// Calls the machine, and handles its outputs until there are none.
    fn with<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&mut H::Service, Time) -> R,
    ) -> Result<R, Errno> {
        catch(|| self.run(call)).map_err(|failure| {
            self.service.node().fail(failure);
            Errno::EIO
        })
    }

    fn run<R>(self: &Arc<Self>, call: impl FnOnce(&mut H::Service, Time) -> R) -> R {
        self.service.node().together(|| {
            let (mut state, now) = (self.state.lock(), self.service.now());
            let result = call(&mut state.machine, now);
            let mut jobs = self.pump(now, &mut state);
            self.arm(state);
            while !jobs.is_empty() {
                let done: Vec<_> = jobs.into_iter().map(|job| job()).collect();
                let (mut state, now) = (self.state.lock(), self.service.now());
                for done in done {
                    done(&mut state.machine, now);
                }
                jobs = self.pump(now, &mut state);
                self.arm(state);
            }
            result
        })
    }

    /// Handles the outputs of the machine; returns the jobs to be done without its lock.
    fn pump(&self, now: Time, state: &mut State<H::Service>) -> Vec<Job<H::Service>> {
        let mut jobs = Vec::new();
        while let Some(mut batch) = lnet::Batch::take(&mut state.machine) {
            let ops = std::mem::take(&mut batch.ops);
            if !ops.is_empty() {
                let postings: Vec<Posting> = ops.into_iter().map(|op| self.posting(op)).collect();
                let results = self.service.post_all(postings);
                batch.report(now, &mut state.machine, results);
            }
            if let Some(request) = batch.request {
                jobs.extend(self.host.handle(&self.service, &mut state.machine, request));
            }
        }
        jobs
    }

    fn posting(&self, op: Op) -> Posting {
        let memory = match &op {
            Op::Attach { md, memory: lnet::Memory::Buffer, .. }
            | Op::Put { from: Bound::New(md, lnet::Memory::Buffer), .. }
            | Op::Get { into: Bound::New(md, lnet::Memory::Buffer), .. } => {
                self.host.memory(md.buffer)
            }
            _ => None,
        };
        Posting::new(op, memory)
    }

    /// Requests an earlier call, if the machine has an earlier deadline.
    fn arm(self: &Arc<Self>, mut state: MutexGuard<'_, State<H::Service>>) {
        use lnet::Service as _;
        let next = state.machine.poll_timeout();
        if let Some(next) = state.alarm.set(next) {
            drop(state);
            let node = self.service.node();
            node.runtime.post(node.home, Message::Arm(self.clone(), next));
        }
    }
}

impl<H: Host> Handler for Arc<Inner<H>> {
    fn handle(&self, _: &Service, events: &mut Vec<Delivery>) {
        use lnet::Service as _;
        // A node that has failed handles no more events.
        let _ = self.with(|machine, now| {
            for delivery in events.iter_mut() {
                // A machine that learns that its memory is free may use it again at once.
                delivery.release_memory();
                let bytes = std::mem::take(&mut delivery.bytes);
                machine.handle_event(now, &delivery.event, bytes);
            }
        });
    }

    fn closed(&self) {
        self.host.closed();
    }
}

impl<H: Host> TimeoutHandler for Inner<H> {
    fn key(&self) -> u64 {
        self.key
    }

    fn node(&self) -> &Shared {
        self.service.node()
    }

    fn handle_timeout(self: Arc<Self>) {
        use lnet::Service as _;
        self.state.lock().alarm.fired();
        let _ = self.with(|machine, now| {
            if machine.poll_timeout().is_some_and(|at| at <= now) {
                machine.handle_timeout(now);
            }
        });
    }
}
