//! An LNet node for the duration of a program, and the imports of its client.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Errno, Rng};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::{Handle, Uuid};
use fulmar_net::exchange::Exchange;
use fulmar_net::{Buffer, NiAddress, NiOptions, Node, Options, Running, Runtime, StartError};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId};
use fulmar_rpc::import::{Request, RequestId, Sender, State, Target};
use fulmar_socklnd::AcceptMode;

use crate::connect::requested;
use crate::inbox::{ClientHost, Inbox, Reply, Reports};
use crate::networks::{interface, networks_of, reach};
use crate::{Error, FsTarget};

/// How a session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// The local interface on the network of the management service; by default the one with the
    /// route to it.
    pub interface: Option<NiAddress>,
    /// The TCP port of all nodes.
    pub port: u16,
    /// How long servers are waited for, all together.
    pub timeout: Duration,
}

/// A client of Lustre with an LNet node of its own, until it is dropped: that ends its connections.
#[derive(Debug)]
pub struct Session {
    node: Node,
    client: Running<ClientHost>,
    inbox: Arc<Inbox>,
    options: SessionOptions,
    deadline: Instant,
    /// The networks that the node is on.
    nets: Vec<Net>,
    /// The UUID of this client.
    uuid: Uuid,
    /// The number that distinguishes its devices from those of other mounts.
    instance: u64,
    handles: Rng,
    sender: Sender,
    /// The imports, and the number of NIDs of each.
    imports: Vec<(ImportId, usize)>,
    /// The threads of the node, if it is the session's own: it ends with the session.
    own: Option<Runtime>,
}

/// Ends what a [`Session`] waits for, from another thread: its calls fail with EINTR from then on. What
/// its drop waits for goes on.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<Inbox>);

impl Interrupter {
    /// Ends the waiting.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

/// How long a disconnect may take: the servers have 5 s.
const FAREWELL: Duration = Duration::from_secs(6);
/// How long other sessions of this machine, which take less than a second, are waited for.
const OTHERS: Duration = Duration::from_secs(2);
/// The time after which something is tried again: a target that recovers, an address in use.
const PAUSE: Duration = Duration::from_millis(250);
/// How long LNet has for its answer to a ping, when nothing else answers.
const PING: Duration = Duration::from_secs(1);

impl Session {
    /// Starts a node on each network of these NIDs that this machine can reach.
    ///
    /// Where that needs no privilege or this program has it, the node accepts connections: so no two
    /// nodes of this machine have the same NID. Another session with the same NID is waited for, for
    /// a short time.
    ///
    /// # Errors
    /// Why it can reach none of them, or why the node does not start.
    pub fn start(nids: &[Nid], options: SessionOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + options.timeout;
        let (runtime, node, nets) = start_session_node(nids, &options)?;
        let begun = Self::begin(&node, nets, options, deadline);
        let mut session = begun.inspect_err(|_| node.stop())?;
        session.own = Some(runtime);
        Ok(session)
    }

    /// Begins a session on a node that has these NIDs.
    ///
    /// # Errors
    /// If the node has ended.
    pub fn on(node: &Node, nids: &[Nid], options: SessionOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + options.timeout;
        let nets = networks_of(nids).into_iter().map(|(net, _)| net).collect();
        Self::begin(node, nets, options, deadline)
    }

    fn begin(
        node: &Node,
        nets: Vec<Net>,
        options: SessionOptions,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let clock = fulmar_net::wall_clock();
        let inbox = Arc::new(Inbox::default());
        let (machine, host) = (Client::new(xids()), ClientHost(inbox.clone()));
        let client = Running::start(node, Client::CONFIG, machine, host, []);
        let client = client.map_err(Error::Node)?;
        let pid = std::process::id();
        let mut handles = Rng::new(clock ^ (u64::from(pid) << 32));
        let (uuid, instance) = (random_uuid(&mut handles), handles.u64());
        let sender = Sender { pid: pid as i32, ..Sender::default() };
        let (node, imports, own) = (node.clone(), Vec::new(), None);
        Ok(Self {
            node,
            client,
            inbox,
            options,
            deadline,
            nets,
            uuid,
            instance,
            handles,
            sender,
            imports,
            own,
        })
    }

    /// Returns what ends its waiting from another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.inbox.clone())
    }

    /// Returns the UUID of this client.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Returns the name of a device of this client: with the number of this client, as
    /// `lv-OST0000-osc-ff110000077c3800`.
    pub fn device(&self, name: &str) -> String {
        format!("{name}-{:016x}", self.instance)
    }

    /// Returns the name of the device for a target.
    pub fn device_of(&self, target: &FsTarget) -> String {
        self.device(&target.device)
    }

    /// Joins the networks of these NIDs, as far as this machine can reach them and the node has no
    /// route. Returns the NIDs that the node can reach.
    pub(crate) fn reach(&mut self, nids: &[Nid]) -> Vec<Nid> {
        reach(&self.node, &mut self.nets, nids, self.options.port)
    }

    /// Returns the first of these NIDs at which LNet answers.
    pub(crate) fn first_of(&self, nids: &[Nid]) -> Option<Nid> {
        let exchange = Exchange::open(&self.node).ok()?;
        let answers = |nid: &&Nid| exchange.ping_info(ProcessId::lustre(**nid), PING).is_ok();
        nids.iter().find(answers).copied()
    }

    /// Waits for servers for a time from now on, all together.
    pub fn renew(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Connects to a target under a UUID, as one server does to another, and waits for the connection.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect_as(&mut self, client: Uuid, target: &FsTarget) -> Result<ImportId, Errno> {
        self.connect_with(client, target, requested(target.kind))
    }

    /// The same with what is requested of the target.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect_with(
        &mut self,
        client: Uuid,
        target: &FsTarget,
        data: ConnectData,
    ) -> Result<ImportId, Errno> {
        let usable = self.reach(&target.nids);
        if usable.is_empty() {
            return Err(Errno::ENETUNREACH);
        }
        let target = Target::new(target.kind, target.uuid, usable, data);
        let import = self.connect(Target { client, ..target })?;
        self.connected(import)?;
        Ok(import)
    }

    /// Returns how often an import was connected.
    pub fn connections(&self, import: ImportId) -> u64 {
        self.inbox.seen(import).connections
    }

    /// Returns the state of an import, and how many requests it keeps for replay.
    pub fn state(&self, import: ImportId) -> Option<(State, usize)> {
        let state = |client: &mut Client, _| {
            client.import(import).map(|import| (import.state(), import.kept()))
        };
        self.client.call(state).ok().flatten()
    }

    /// Handles a report of the management service that a target has restarted, for the n-th time: it is connected
    /// again at once.
    pub fn target_restarted(&self, import: ImportId, instance: u32) {
        // A node that has failed connects to nothing.
        let _ = self.client.call(|client, now| client.target_restarted(now, import, instance));
    }

    /// Begins to connect to a target, as this client unless the target names another one.
    pub(crate) fn connect(&mut self, target: Target) -> Result<ImportId, Errno> {
        let (connection, nids) = (Handle(self.handles.u64()), target.nids.len());
        let own = target.client == Uuid::default();
        let client = if own { self.uuid } else { target.client };
        let target = Target { client, connection, sender: self.sender, ..target };
        let import = self.client.call(|client, now| client.connect(now, target))?;
        self.imports.push((import, nids));
        Ok(import)
    }

    /// Waits for the connection to a target.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn connected(&self, import: ImportId) -> Result<(), Errno> {
        self.wait(import, |reports| reports.seen.get(&import)?.is_full.then_some(()))
    }

    /// Returns the NID that the import is connected to, or tries.
    pub fn nid(&self, import: ImportId) -> Option<Nid> {
        let nid = |client: &mut Client, _| client.import(import).map(|import| import.nid());
        self.client.call(nid).ok().flatten()
    }

    /// Begins a request, which waits for the connection.
    ///
    /// # Errors
    /// If the node has failed.
    pub fn request(&self, import: ImportId, request: Request) -> Result<RequestId, Errno> {
        let begun = self.client.call(|client, now| client.request(now, import, request))?;
        begun.ok_or(Errno::EINVAL)
    }

    /// Waits for the reply to a request.
    ///
    /// # Errors
    /// Why there is none, or the status of the reply if that is an error.
    pub fn reply(&self, import: ImportId, request: RequestId) -> Reply {
        let reply = self.wait(import, |reports| reports.replies.remove(&(import, request)))??;
        match reply.body.status.errno() {
            Some(errno) => Err(errno),
            None => Ok(reply),
        }
    }

    /// Sends a request, and waits for the reply.
    ///
    /// # Errors
    /// Why there is no reply, or the status of the reply if that is an error.
    pub fn call(&self, import: ImportId, request: Request) -> Reply {
        let request = self.request(import, request)?;
        self.reply(import, request)
    }

    /// Lets bulk data go to a buffer, and returns its name.
    pub(crate) fn lend(&self, buffer: Arc<Buffer>) -> BufferId {
        self.inbox.lend(buffer)
    }

    /// Ends that.
    pub(crate) fn take_back(&self, id: BufferId) {
        self.inbox.take_back(id);
    }

    /// Waits before a request is repeated. Returns false if no time is left for that.
    pub fn pause(&self) -> bool {
        let has_time = Instant::now() + PAUSE < self.deadline && !self.inbox.is_interrupted();
        if has_time {
            std::thread::sleep(PAUSE);
        }
        has_time
    }

    /// Waits for what `find` finds.
    ///
    /// # Errors
    /// Why that will not come, or not in time: the import is closed, or its target was at none of its
    /// NIDs.
    fn wait<R>(
        &self,
        import: ImportId,
        mut find: impl FnMut(&mut Reports) -> Option<R>,
    ) -> Result<R, Errno> {
        let known = self.imports.iter().find(|(id, _)| *id == import);
        let nids = known.map_or(1, |(_, nids)| *nids);
        let found = self.inbox.wait(self.deadline, |reports| {
            if reports.is_interrupted {
                return Some(Err(Errno::EINTR));
            }
            if let Some(found) = find(reports) {
                return Some(Ok(found));
            }
            let seen = reports.seen.get(&import)?;
            seen.closed.or(seen.failure.filter(|_| seen.failed >= nids)).map(Err)
        });
        found.unwrap_or_else(|| Err(self.inbox.failure(import).unwrap_or(Errno::ETIMEDOUT)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let imports: Vec<ImportId> = self.imports.iter().map(|(import, _)| *import).collect();
        let disconnected = self.client.call(|client, now| {
            imports.iter().for_each(|import| client.disconnect(now, *import));
        });
        if disconnected.is_ok() {
            self.inbox.wait(Instant::now() + FAREWELL, |reports| {
                let is_closed = |import| {
                    let seen = reports.seen.get(import);
                    seen.is_some_and(|seen| seen.closed.is_some())
                };
                imports.iter().all(is_closed).then_some(())
            });
        }
        match self.own {
            Some(_) => self.node.stop(),
            None => self.client.close(),
        }
    }
}

/// Returns an interface on each network of these NIDs that this machine can reach.
fn interfaces(nids: &[Nid], options: &SessionOptions) -> Result<Vec<NiOptions>, Error> {
    let (mut nis, mut failure) = (Vec::new(), None);
    for (net, nid) in networks_of(nids) {
        match (&options.interface, nis.is_empty()) {
            (Some(address), true) => {
                let usual = NiOptions::at(std::net::Ipv4Addr::UNSPECIFIED.into());
                nis.push(NiOptions { net, address: address.clone(), ..usual });
            }
            _ => match interface(nid, options.port) {
                Ok(ni) => nis.push(ni),
                Err(error) => failure = failure.or(Some(error)),
            },
        }
    }
    let nid = nids.first().copied().unwrap_or(Nid::LOOPBACK);
    if nis.is_empty() { Err(failure.unwrap_or(Error::Network { nid })) } else { Ok(nis) }
}

/// Starts a node on each network of these NIDs that this machine can reach.
pub(crate) fn start_session_node(
    nids: &[Nid],
    options: &SessionOptions,
) -> Result<(Runtime, Node, Vec<Net>), Error> {
    let nis = interfaces(nids, options)?;
    let nets = nis.iter().map(|ni| ni.net).collect();
    let runtime = Runtime::new(None)?;
    let node = start_alone(&runtime, &nis, options.port)?;
    Ok((runtime, node, nets))
}

/// Starts a node with these interfaces, as the only one with their NIDs.
fn start_alone(runtime: &Runtime, nis: &[NiOptions], port: u16) -> Result<Node, StartError> {
    let limit = Instant::now() + OTHERS;
    loop {
        match start_node(runtime, nis, port, AcceptMode::Secure) {
            Err(StartError::PortInUse { .. }) if Instant::now() < limit => {
                std::thread::sleep(PAUSE);
            }
            // A node without the privilege is distinguished by the port that it connects from.
            Err(StartError::Privilege { .. }) => {
                return start_node(runtime, nis, port, AcceptMode::None);
            }
            started => return started,
        }
    }
}

fn start_node(
    runtime: &Runtime,
    nis: &[NiOptions],
    port: u16,
    accept: AcceptMode,
) -> Result<Node, StartError> {
    let mut options = Options { nis: nis.to_vec(), ..Options::default() };
    options.config.socklnd.accept = accept;
    options.config.socklnd.accept_port = port;
    Node::start(runtime, options)
}

/// Returns the XIDs of this process, which has one source for all sessions.
pub(crate) fn xids() -> XidSource {
    static XIDS: LazyLock<XidSource> =
        LazyLock::new(|| XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
    XIDS.clone()
}

/// Returns a random UUID in the usual text form.
pub(crate) fn random_uuid(random: &mut Rng) -> Uuid {
    let (high, low) = (random.u64(), random.u64());
    let text = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff,
    );
    Uuid::new(&text).expect("it has 36 characters")
}
