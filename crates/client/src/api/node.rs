//! An LNet node with the machine of mounts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Rng};
use fulmar_data::Settings as DataSettings;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_net::{Admin, Host, Job, JobReport, Memory, Node, Running, Runtime, Service};
use fulmar_rpc::import::Sender;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::filesystem::FileSystem;
use crate::files::mount::MountState;
use crate::machine::context::Context;
use crate::machine::{MountId, Mounts, MountsConfig, Shared, Upcall};
use crate::networks::{networks_of, reach};
use crate::session::{random_uuid, start_session_node, xids};
use crate::watch::StaleGuard;
use crate::{Address, Error, SessionOptions, mounting};

/// A client of Lustre with an LNet node. It has any number of mounts, and exists as long as one of them or
/// a handle to it does.
#[derive(Clone)]
pub struct ClientNode(pub(super) Arc<Inner>);

pub(super) struct Inner {
    node: Node,
    running: Running<MountsHost>,
    shared: Shared,
    options: SessionOptions,
    /// The networks that the node is on.
    nets: Mutex<Vec<Net>>,
    /// The threads of the node, if it is the client's own.
    own: Option<Runtime>,
}

/// How a file system is mounted.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// How the data of files are cached. Less than the least memory is that.
    pub data: DataSettings,
    /// The process of the mount, as far as it has parameters and a debug log that the mount shows.
    pub process: Option<Arc<dyn Process>>,
}

/// What the process of a mount has beside it: parameters, which are read and set with those of the mount, and a debug
/// log.
pub trait Process: std::fmt::Debug + Send + Sync {
    /// Returns the names of its parameters.
    fn parameters(&self) -> &'static [&'static str];

    /// Returns the value of one; `None` if it is only written.
    fn read(&self, name: &str) -> Option<String>;

    /// Sets one.
    ///
    /// # Errors
    /// EINVAL if it cannot have the value.
    fn write(&self, name: &str, value: &str) -> Result<(), Errno>;

    /// Removes and returns the oldest lines of the debug log, up to so many bytes.
    fn take_log(&self, room: usize) -> String;
}

/// How long the servers have to take the farewell of a mount that has failed.
const FAREWELL: Duration = Duration::from_secs(2);

impl ClientNode {
    /// Starts a node on each network of these NIDs that this machine can reach. It waits for the node, but
    /// for no server.
    ///
    /// # Errors
    /// Why it can reach none of them, or why the node does not start.
    pub fn start(nids: &[Nid], options: SessionOptions) -> Result<Self, Error> {
        let (runtime, node, nets) = start_session_node(nids, &options)?;
        let begun = Self::begin(&node, nets, options, Some(runtime));
        begun.inspect_err(|_| node.stop())
    }

    /// Uses a node that has these NIDs. A node has at most one `ClientNode`.
    ///
    /// # Errors
    /// If the node has ended.
    pub fn on(node: &Node, nids: &[Nid], options: SessionOptions) -> Result<Self, Error> {
        let nets = networks_of(nids).into_iter().map(|(net, _)| net).collect();
        Self::begin(node, nets, options, None)
    }

    fn begin(
        node: &Node,
        nets: Vec<Net>,
        options: SessionOptions,
        own: Option<Runtime>,
    ) -> Result<Self, Error> {
        let clock = fulmar_net::wall_clock();
        let pid = std::process::id();
        // The machine learns the node's time with its first input.
        let machine = Mounts::new(MountsConfig {
            xids: xids(),
            random: Rng::new(clock ^ (u64::from(pid) << 32)),
            epoch: Duration::from_nanos(clock),
            sender: Sender { pid: pid as i32, ..Sender::default() },
        });
        let shared = machine.shared();
        let host = MountsHost { shared: shared.clone(), running: Mutex::default() };
        let running = Running::start(node, Mounts::CONFIG, machine, host, []);
        let running = running.map_err(Error::Node)?;
        let set_epoch = |_: &mut Mounts, now: fulmar_base::Time| {
            let clock = fulmar_net::wall_clock();
            shared.core().set_epoch(Duration::from_nanos(clock.saturating_sub(now.0)));
        };
        running.call(set_epoch).map_err(Error::Node)?;
        *running.host().running.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(running.clone());
        let (node, nets) = (node.clone(), Mutex::new(nets));
        Ok(Self(Arc::new(Inner { node, running, shared, options, nets, own })))
    }

    /// Returns the administrator's handle to the node.
    pub fn admin(&self) -> Admin {
        self.0.node.admin()
    }

    /// Mounts a file system, or a directory of it.
    ///
    /// # Errors
    /// Why that is not possible, ETIMEDOUT if the servers do not answer in the time of the options.
    pub async fn mount(
        &self,
        address: &Address,
        options: MountOptions,
    ) -> Result<FileSystem, Error> {
        let usable = self.reach(&address.mgs);
        let (id, uuid) = {
            let mut core = self.0.shared.core();
            let id = MountId(core.number());
            let uuid = random_uuid(&mut core.random);
            core.mounts.insert(id, MountState::new(address.clone(), uuid, options));
            (id, uuid)
        };
        let mounted = self.mount_as(id, usable).await;
        if mounted.is_err() {
            self.end(id).await;
        }
        mounted.map(|root| FileSystem::new(self.clone(), id, uuid, root))
    }

    /// Ends a mount that has failed. Who gets the error may exit, and others would wait for the locks of a
    /// client that is gone; so the servers have some time to answer.
    async fn end(&self, id: MountId) {
        let cx = Context::new(self.0.shared.clone(), id);
        let (sender, ended) = oneshot::channel();
        self.spawn(async move {
            mounting::end(&cx).await;
            let _ = sender.send(());
        });
        let ended = self.in_time(id, FAREWELL, |_| async move {
            let _ = ended.await;
            Ok(())
        });
        let _ = ended.await;
    }

    async fn mount_as(
        &self,
        id: MountId,
        usable: Vec<Nid>,
    ) -> Result<fulmar_lustre_wire::Fid, Error> {
        let time = self.0.options.timeout;
        let mgs = self
            .in_time(id, time, |cx| async move { mounting::configure(&cx, usable).await })
            .await?;
        let nids = {
            let core = self.0.shared.core();
            let mount = core.mounts.get(&id).ok_or(Error::Node(Errno::ESHUTDOWN))?;
            let targets = mount.configuration.targets();
            targets.flat_map(|target| target.nids.clone()).collect::<Vec<Nid>>()
        };
        self.reach(&nids);
        let nets = self.0.nets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.in_time(id, time, |cx| async move { mounting::begin(&cx, mgs, nets).await }).await?;
        let core = self.0.shared.core();
        core.mounts.get(&id).map(|mount| mount.root).ok_or(Error::Node(Errno::ESHUTDOWN))
    }

    /// Runs a part of a mount for a time.
    async fn in_time<T, F>(
        &self,
        id: MountId,
        time: Duration,
        operation: impl FnOnce(Context) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let cx = Context::new(self.0.shared.clone(), id);
        let (sender, waiting) = oneshot::channel();
        let operation = Box::pin(operation(cx.clone()));
        self.spawn(async move {
            let late = Box::pin(cx.sleep(time));
            let result = match select(operation, late).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => {
                    let what = "waiting for the servers".to_owned();
                    Err(Error::Request { what, errno: Errno::ETIMEDOUT })
                }
            };
            let _ = sender.send(result);
        });
        waiting.await.unwrap_or(Err(Error::Node(Errno::EIO)))
    }

    /// Begins an operation.
    pub(super) fn spawn(&self, operation: impl Future<Output = ()> + Send + 'static) {
        // An operation that begins another one.
        if self.0.shared.is_polled_here() {
            return self.0.shared.core().spawn(Box::pin(operation));
        }
        // Who waits for it learns that the node has failed.
        let _ = self.0.running.call(|machine, now| machine.spawn(now, Box::pin(operation)));
    }

    pub(super) fn shared(&self) -> Shared {
        self.0.shared.clone()
    }

    /// Joins the networks of these NIDs, as far as this machine can reach them and the node has no
    /// route. Returns the NIDs that the node can reach.
    fn reach(&self, nids: &[Nid]) -> Vec<Nid> {
        let mut nets = self.0.nets.lock().unwrap_or_else(PoisonError::into_inner);
        reach(&self.0.node, &mut nets, nids, self.0.options.port)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        *self.running.host().running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match self.own {
            Some(_) => self.node.stop(),
            None => self.running.close(),
        }
    }
}

impl std::fmt::Debug for ClientNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientNode({:?})", self.0.running)
    }
}

/// The host of the machine.
pub(super) struct MountsHost {
    shared: Shared,
    /// The machine, as long as the client exists.
    running: Mutex<Option<Running<Self>>>,
}

impl Host for MountsHost {
    type Service = Mounts;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        self.shared.core().buffer(buffer)
    }

    fn handle(&self, _: &Service, _: &mut Mounts, upcall: Upcall) -> Option<Job<Mounts>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Box::new(move || {
            let lock = upcall.lock;
            let done = StaleGuard::new(move || {
                if let (Some(running), Some((import, lock))) = (running, lock) {
                    let _ = running.call(|machine, now| machine.flushed(now, import, lock));
                }
            });
            upcall.watcher.stale(upcall.stale, done);
            let nothing: JobReport<Mounts> = Box::new(|_, _| ());
            nothing
        }))
    }
}
