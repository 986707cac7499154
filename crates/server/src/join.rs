//! How targets join their file systems. Spec: ptlrpc-ldlm-mgs §33, §34.3.
//!
//! ```text
//! MDT: connect to the MGS ─► register ─► report the start ─► stay registered
//! OST: connect to the MGS ─► register ─► find MDT0000 in the configuration ─► connect to it
//!                                    ─► get sequences for objects ─► report the start ─► stay connected
//! ```
//!
//! It begins again where something is missing yet. Clients are served meanwhile.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use fulmar_base::Errno;
use fulmar_client::{Address, Configuration, Error, FsTarget, Session, SessionOptions};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    SEQ_OP, SEQ_QUERY, SEQ_RANGE, TARGET_INFO, TARGET_NIDS, TARGET_REG,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{TargetFlags, TargetInfo, TargetNids};
use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
use fulmar_lustre_wire::{Text, Uuid, portal};
use fulmar_mdt::Mdt;
use fulmar_net::Node;
use fulmar_ost::Ost;
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::Request;
use fulmar_store::{Space, Store, StoreError};
use tracing::{info, warn};

use crate::debug_log;
use crate::nodemaps;
use crate::osts::{Link, Links, Osts};
use crate::parameters::Parameters;
use crate::placement::Placement;
use crate::settings;
use crate::stop_signal::StopSignal;
use crate::storage::TargetLabel;

/// Whether the target has registered, and its placement.
pub(crate) const JOINED: Space = Space::new(0xd0);
const REGISTERED: &[u8] = b"registered";
/// How long servers are waited for.
const TIMEOUT: Duration = Duration::from_secs(60);
/// When something that is missing is looked for again, at first and at the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_secs(5);
/// The room for the reply to a registration.
const REPLY: usize = 8192;

/// The thread of a target. Dropping it ends the connections.
pub(crate) struct JoinThread {
    stopping: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

/// A target that joins its file system.
pub(crate) struct Joiner {
    pub(crate) node: Node,
    /// The NIDs of the node.
    pub(crate) nids: Vec<Nid>,
    pub(crate) port: u16,
    pub(crate) label: TargetLabel,
    pub(crate) placement: Placement,
    pub(crate) member: Member,
    pub(crate) store: Arc<Store>,
    /// The number of the target on its node, and the parameters of all.
    pub(crate) target: TargetId,
    pub(crate) parameters: Arc<Parameters>,
}

/// The target itself.
#[derive(Clone)]
pub(crate) enum Member {
    Mdt(Arc<Mdt>, Arc<Osts>),
    Ost(Arc<Ost>),
}

/// What is missing.
enum JoinFailure {
    Server(Error),
    Registration(Errno),
    Nids,
    Mdt,
    Connection(Errno),
    Sequences(Errno),
    Store(StoreError),
    /// The target stops.
    Stopped,
}

impl From<Error> for JoinFailure {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl From<Errno> for JoinFailure {
    fn from(errno: Errno) -> Self {
        Self::Connection(errno)
    }
}

impl From<StoreError> for JoinFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::Registration(Errno::EADDRINUSE) => f.write_str(
                "the MGS knows another target of this index; make it with another --index",
            ),
            Self::Registration(errno) => write!(f, "the MGS does not register it: {errno}"),
            Self::Nids => f.write_str(
                "the node has no NID that it may register: it was made with another --network or \
                 --servicenode",
            ),
            Self::Mdt => f.write_str("the file system has no MDT yet"),
            Self::Connection(errno) => write!(f, "MDT0000 does not answer: {errno}"),
            Self::Sequences(errno) => write!(f, "MDT0000 gives no sequences: {errno}"),
            Self::Store(error) => error.fmt(f),
            Self::Stopped => f.write_str("it stops"),
        }
    }
}

impl JoinThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none.
    pub(crate) fn start(joiner: Joiner) -> io::Result<Self> {
        let stopping = Arc::<StopSignal>::default();
        let of_thread = stopping.clone();
        let run = move || joiner.run(&of_thread);
        let thread = Builder::new().name("join".to_owned()).spawn(run)?;
        Ok(Self { stopping, thread: Some(thread) })
    }

    /// Tells the thread to end, without waiting for it: it disconnects from other servers.
    pub(crate) fn stop(&self) {
        self.stopping.begin();
    }
}

impl Drop for JoinThread {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Member {
    /// Returns how often it was started.
    fn instance(&self) -> u32 {
        match self {
            Self::Mdt(mdt, _) => mdt.instance(),
            Self::Ost(ost) => ost.instance(),
        }
    }

    fn kind(&self) -> TargetFlags {
        match self {
            Self::Mdt(..) => TargetFlags::MDT,
            Self::Ost(_) => TargetFlags::OST,
        }
    }
}

impl Joiner {
    fn run(&self, stopping: &StopSignal) {
        let name = self.label.name();
        let mut last = String::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let missing = match self.join(stopping) {
                _ if stopping.has_begun() => return,
                // The end of the store was reported.
                Err(JoinFailure::Stopped | JoinFailure::Store(StoreError::Fenced { .. })) => return,
                Err(missing) => missing.to_string(),
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    continue;
                }
            };
            // Targets that start together are soon there.
            if missing != last && pause > FIRST_PAUSE * 2 {
                warn!("{name} has not joined its file system: {missing}. It goes on trying");
                last = missing;
            }
            if !stopping.wait(pause) {
                return;
            }
            pause = PAUSE.min(pause * 2);
        }
    }

    /// Joins, and stays connected until it stops or is to join again.
    fn join(&self, stopping: &StopSignal) -> Result<(), JoinFailure> {
        let options = SessionOptions { interface: None, port: self.port, timeout: TIMEOUT };
        let mut session = Session::on(&self.node, &self.nids, options)?;
        stopping.watch(&session);
        let address = self.address();
        let mgs = session.connect_mgs(&address)?;
        if self.store.get(JOINED, REGISTERED)?.is_none() {
            self.register(&session, mgs, TargetFlags::VIRGIN | TargetFlags::UPDATE)?;
            let mut transaction = self.store.begin();
            transaction.put(JOINED, REGISTERED, *b"");
            transaction.apply()?;
            self.store.commit()?;
        } else {
            self.register(&session, mgs, TargetFlags::NONE)?;
        }
        if let Member::Mdt(mdt, osts) = &self.member {
            self.report_start(&session, mgs)?;
            info!("{} has joined its file system", self.label.name());
            return self.follow_osts(&mut session, (mgs, &address), (mdt, osts), stopping);
        }
        let file_system = session.file_system(mgs, &address)?;
        let mdt = file_system.mdts.iter().find(|mdt| mdt.index == 0).ok_or(JoinFailure::Mdt)?;
        session.renew(TIMEOUT);
        let mdt = session.connect_as(self.uuid(), mdt).map_err(JoinFailure::Connection)?;
        self.get_sequences(&session, mdt)?;
        self.report_start(&session, mgs)?;
        info!("{} has joined its file system", self.label.name());
        loop {
            session.renew(TIMEOUT);
            self.get_sequences(&session, mdt)?;
            self.follow_settings(&session, mgs)?;
            wait(stopping)?;
        }
    }

    /// Applies what an administrator has changed since it was read last: parameters, and nodemaps.
    fn follow_settings(&self, session: &Session, mgs: ImportId) -> Result<(), JoinFailure> {
        let found = session.settings(mgs, &self.label.name().to_string())?;
        let before = settings::load(&self.store)?;
        if found != before {
            self.parameters.apply(self.target, &settings::changed(&before, &found));
            settings::save(&self.store, &found)?;
        }
        let read = session.nodemaps(mgs)?;
        if nodemaps::take(&self.store, &self.member, &read)? {
            self.parameters.forget_cached(self.target);
        }
        Ok(())
    }

    /// Connects to the OSTs of the configuration, as they come and go.
    fn follow_osts(
        &self,
        session: &mut Session,
        (mgs, address): (ImportId, &Address),
        (mdt, osts): (&Arc<Mdt>, &Arc<Osts>),
        stopping: &StopSignal,
    ) -> Result<(), JoinFailure> {
        let mut links = Links::default();
        loop {
            session.renew(TIMEOUT);
            let Configuration { osts: found, pools, .. } = session.file_system(mgs, address)?;
            osts.set_pools(pools);
            let is_used =
                |index| found.iter().any(|ost: &FsTarget| ost.index == index && ost.is_active);
            osts.lose_others(is_used);
            links.retain(is_used);
            for target in found.into_iter().filter(|ost| ost.is_active) {
                if !links.has(target.index) {
                    let link = self.link((mdt.clone(), osts.clone()), target);
                    links.start(link).map_err(|_| Errno::EAGAIN)?;
                }
            }
            self.follow_settings(session, mgs)?;
            wait(stopping)?;
        }
    }

    fn link(&self, (mdt, osts): (Arc<Mdt>, Arc<Osts>), target: FsTarget) -> Link {
        Link {
            node: self.node.clone(),
            nids: self.nids.clone(),
            port: self.port,
            osts,
            store: self.store.clone(),
            file_system: self.label.address.name.clone(),
            mdt,
            index: self.label.index,
            target,
        }
    }

    /// Returns where the management service is: for one on this node its NIDs.
    fn address(&self) -> Address {
        let given = &self.label.address;
        match given.mgs[..] {
            [Nid::LOOPBACK] => given.on(&self.nids),
            _ => given.clone(),
        }
    }

    /// The UUID of the connection to MDT0000.
    fn uuid(&self) -> Uuid {
        let name = self.label.name();
        let text = format!("{}-MDT0000-lwp-{}_UUID", name.file_system, name.suffix());
        Uuid::new(&text).expect("it has at most 33 characters")
    }

    fn get_sequences(&self, session: &Session, mdt: ImportId) -> Result<(), JoinFailure> {
        let Member::Ost(ost) = &self.member else { return Ok(()) };
        if !ost.needs_sequences()? {
            return Ok(());
        }
        let index = self.label.index.into();
        let wanted = SeqRange { index, kind: SeqKind::OST, ..SeqRange::default() };
        let message = Message::request(&SEQ_QUERY)
            .with(&SEQ_OP, &SeqOp::ALLOC_SUPER)
            .with(&SEQ_RANGE, &wanted);
        let request = Request::new(message, 1024).at(portal::SEQ_CONTROLLER);
        let reply = session.call(mdt, request).map_err(JoinFailure::Sequences)?;
        let range = reply.require(&SEQ_RANGE).map_err(|_| JoinFailure::Sequences(Errno::EPROTO))?;
        ost.add_sequences(range)?;
        self.store.commit()?;
        Ok(())
    }

    fn register(
        &self,
        session: &Session,
        mgs: ImportId,
        flags: TargetFlags,
    ) -> Result<(), JoinFailure> {
        // The start is reported with all of them: they are where the target is now.
        let own = self.placement.registered(&self.nids);
        if own.is_empty() {
            return Err(JoinFailure::Nids);
        }
        let nids = own.iter().map(Nid::to_string).collect::<Vec<_>>().join(",");
        debug_log::configured(
            self.label.name(),
            format_args!("registers at {} with {nids}", self.address()),
        );
        let request = self.registration(flags | TargetFlags::OPC_REG, 0, &own);
        session.call(mgs, request).map_err(JoinFailure::Registration)?;
        Ok(())
    }

    /// Reports the start, so that clients of the last start connect at once.
    fn report_start(&self, session: &Session, mgs: ImportId) -> Result<(), JoinFailure> {
        let request = self.registration(TargetFlags::OPC_READY, self.member.instance(), &self.nids);
        session.call(mgs, request).map_err(JoinFailure::Registration)?;
        Ok(())
    }

    fn registration(&self, flags: TargetFlags, instance: u32, own: &[Nid]) -> Request {
        let (name, placement) = (self.label.name(), &self.placement);
        let primary = if placement.has_service_nodes() {
            TargetFlags::NO_PRIMNODE
        } else {
            TargetFlags::NONE
        };
        let mut nids = [0; 32];
        let small = own.iter().filter_map(|nid| nid.to_small());
        nids.iter_mut().zip(small).for_each(|(place, nid)| *place = nid);
        let info = TargetInfo {
            version: RELEASE.0,
            index: name.index.into(),
            flags: flags | primary | self.member.kind() | TargetFlags::LARGE_NID,
            nid_count: own.len() as u32,
            instance,
            file_system: Text::new(&name.file_system).expect("it has at most 8 characters"),
            name: Text::new(&name.to_string()).expect("it has at most 16 characters"),
            nids,
            parameters: Text::new(&placement.parameter()).expect("mkfs allows what fits"),
            ..TargetInfo::default()
        };
        let texts = own.iter().filter_map(|nid| Text::new(&nid.to_string())).collect();
        let list = TargetNids { count: info.nid_count, nids: texts, ..TargetNids::default() };
        let message = Message::request(&TARGET_REG);
        Request::new(message.with(&TARGET_INFO, &info).with(&TARGET_NIDS, &list), REPLY)
    }
}

/// Waits until something is to be looked for again.
fn wait(stopping: &StopSignal) -> Result<(), JoinFailure> {
    stopping.wait(PAUSE).then_some(()).ok_or(JoinFailure::Stopped)
}
