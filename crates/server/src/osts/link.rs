//! The connection of an MDT to one OST.

use std::ops::Bound;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use fulmar_base::Errno;
use fulmar_client::{Error, FsTarget, Session, SessionOptions};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    OST_BODY, OST_CREATE, OST_DESTROY, OST_SETATTR, OST_STATFS, SEQ_OP, SEQ_QUERY, SEQ_RANGE,
    STATFS,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, Obdo, ObdoFlags, OstId};
use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
use fulmar_lustre_wire::{Fid, Uuid, portal};
use fulmar_mdt::Mdt;
use fulmar_net::Node;
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;
use fulmar_store::{Store, StoreError, Value};
use tracing::{info, warn};

use super::records::{LastObject, TASKS, TaskKind, USED, encode, task_key};
use super::{COUNT_MAX, Ost, Osts, Step, read_task};
use crate::stop_signal::StopSignal;

/// How often the OST is asked for its state.
const PERIOD: Duration = Duration::from_secs(5);
/// When an OST that recovers is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the OST is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many things to do are sent at once.
const TASKS_MAX: usize = 256;
/// The room for a reply.
const REPLY: usize = 1024;
/// The numbers of a sequence. Spec: ptlrpc-ldlm-mgs §34.4.
const WIDTH: u32 = 0x1ff_ffff;

/// What the thread of an OST needs.
pub(crate) struct Link {
    pub(crate) node: Node,
    pub(crate) nids: Vec<Nid>,
    pub(crate) port: u16,
    pub(crate) osts: Arc<Osts>,
    /// The store of the MDT.
    pub(crate) store: Arc<Store>,
    /// The name of the file system.
    pub(crate) file_system: String,
    pub(crate) mdt: Arc<Mdt>,
    /// The index of the MDT.
    pub(crate) index: u16,
    pub(crate) target: FsTarget,
}

/// The threads of all OSTs. Dropping it ends their connections, all at once.
#[derive(Default)]
pub(crate) struct Links(Vec<LinkThread>);

/// The thread of an OST. Dropping it ends the connection.
struct LinkThread {
    ost: Arc<Ost>,
    stopping: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Why the connection is given up.
enum Failure {
    Session(Error),
    Errno(Errno),
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::Errno(errno) => errno.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Links {
    /// Starts the thread of an OST that has none.
    ///
    /// # Errors
    /// If the system has none.
    pub(crate) fn start(&mut self, link: Link) -> io::Result<()> {
        self.0.push(LinkThread::start(link)?);
        Ok(())
    }

    /// Returns whether an OST has a thread.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.0.iter().any(|link| link.ost.index == index)
    }

    /// Ends the threads of other OSTs than these.
    pub(crate) fn retain(&mut self, is_used: impl Fn(u32) -> bool) {
        self.0.retain(|link| is_used(link.ost.index));
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.0.iter().for_each(LinkThread::stop);
    }
}

impl LinkThread {
    fn start(link: Link) -> io::Result<Self> {
        let stopping = Arc::<StopSignal>::default();
        let of_thread = stopping.clone();
        let ost = link.osts.get_or_add(link.target.index, LastObject::default());
        ost.state().stops = false;
        let own = ost.clone();
        let thread =
            Builder::new().name("osp".to_owned()).spawn(move || link.run(&own, &of_thread))?;
        Ok(Self { ost, stopping, thread: Some(thread) })
    }

    fn stop(&self) {
        self.ost.stop();
        self.stopping.begin();
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Link {
    fn run(&self, ost: &Ost, stopping: &StopSignal) {
        let name = format!("{}-OST{:04x}", self.file_system, self.target.index);
        let mut last = String::new();
        loop {
            let ended = self.serve(ost, stopping, &name);
            {
                let mut state = ost.state();
                (state.is_ready, state.is_lost) = (false, true);
            }
            self.osts.notify();
            match ended {
                _ if stopping.has_begun() => return,
                Ok(()) => return,
                Err(failure) if failure.to_string() != last => {
                    last = failure.to_string();
                    warn!("{name} gives no objects: {last}. It goes on trying");
                }
                Err(_) => {}
            }
            if !ost.pause(PERIOD) {
                return;
            }
        }
    }

    /// Works with a connected OST until the thread is to end.
    fn serve(&self, ost: &Ost, stopping: &StopSignal, name: &str) -> Result<(), Failure> {
        let options = SessionOptions { interface: None, port: self.port, timeout: TIMEOUT };
        let mut session = Session::on(&self.node, &self.nids, options)?;
        stopping.watch(&session);
        let import = session.connect_with(self.uuid(), &self.target, self.requested())?;
        // The connection whose objects were cleaned, and the one that was reported.
        let (mut cleaned, mut reported) = (0, 0);
        let mut asked: Option<Instant> = None;
        loop {
            session.renew(TIMEOUT);
            // Clients of the MDT say first which objects they have. The OST does not wait for that.
            if self.mdt.recovers() {
                if ost.pause(PAUSE) { continue } else { return Ok(()) }
            }
            let seen = session.connections(import);
            let is_due = asked.is_none_or(|at| at.elapsed() >= PERIOD);
            let step = ost.state().next(seen != cleaned, is_due);
            let done = match step {
                Step::Clean => self.clean(&session, import, ost),
                Step::AskStatfs => self.ask_statfs(&session, import, ost),
                Step::Create => self.create(&session, import, ost),
                Step::SendTasks => self.send_tasks(&session, import, ost),
                Step::Wait => Ok(()),
            };
            match done {
                Ok(()) => {}
                // It waits for its clients after a restart.
                Err(Failure::Errno(Errno::EAGAIN)) if ost.pause(PAUSE) => continue,
                Err(Failure::Errno(Errno::EAGAIN)) => return Ok(()),
                Err(failure) => return Err(failure),
            }
            self.osts.notify();
            match step {
                Step::Clean => cleaned = seen,
                Step::AskStatfs => asked = Some(Instant::now()),
                Step::Create if reported != cleaned => {
                    reported = cleaned;
                    info!("{name} has objects for new files");
                }
                Step::Create | Step::SendTasks => {}
                Step::Wait if ost.wait(PERIOD) => {}
                Step::Wait => return Ok(()),
            }
        }
    }

    /// The UUID of the MDT as a client of the OST.
    fn uuid(&self) -> Uuid {
        let text = format!("{}-MDT{:04x}-mdtlov_UUID", self.file_system, self.index);
        Uuid::new(&text).expect("it has at most 33 characters")
    }

    /// What the MDT requests of the OST. It has nothing that the OST would wait for after a restart.
    fn requested(&self) -> ConnectData {
        let flags = ConnectFlags::VERSION
            | ConnectFlags::INDEX
            | ConnectFlags::MDS
            | ConnectFlags::AT
            | ConnectFlags::FID
            | ConnectFlags::FULL20
            | ConnectFlags::SKIP_ORPHAN
            | ConnectFlags::LIGHTWEIGHT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::FLAGS2;
        ConnectData {
            flags,
            flags2: ConnectFlags2::REP_MBITS,
            version: RELEASE,
            index: self.target.index,
            group: self.index.into(),
            ..ConnectData::default()
        }
    }

    /// Removes the objects that no file got, and learns which ones exist.
    fn clean(&self, session: &Session, import: ImportId, ost: &Ost) -> Result<(), Failure> {
        ost.state().is_ready = false;
        if ost.state().seq == 0 {
            self.begin_sequence(session, import, ost)?;
        }
        let known = ost.known();
        let valid = Valid::FLGROUP | Valid::FLFLAGS;
        let flags = FlagWord { flags: ObdoFlags::DELORPHAN, ..FlagWord::default() };
        let body = Obdo { valid, flags, ..Obdo::default() };
        let last = self.create_up_to(session, import, known, body)?;
        let mut state = ost.state();
        // The numbers of removed objects are not used again.
        state.used = state.used.max(last);
        state.created = state.used;
        // They may be gone with the OST.
        state.given_back.clear();
        (state.is_ready, state.is_lost) = (true, false);
        Ok(())
    }

    /// Gets a sequence for objects, which is durable before the first of them exists.
    fn begin_sequence(
        &self,
        session: &Session,
        import: ImportId,
        ost: &Ost,
    ) -> Result<(), Failure> {
        let wanted = SeqRange { index: ost.index, kind: SeqKind::OST, ..SeqRange::default() };
        let message = Message::request(&SEQ_QUERY)
            .with(&SEQ_OP, &SeqOp::ALLOC_META)
            .with(&SEQ_RANGE, &wanted);
        let reply = session.call(import, Request::new(message, REPLY).at(portal::SEQ_DATA))?;
        let given: SeqRange = reply.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        let mut transaction = self.store.begin();
        transaction.put(
            USED,
            &encode(&ost.index),
            encode(&LastObject { seq: given.start, oid: 0 }),
        );
        let number = transaction.apply()?;
        self.store.wait(number)?;
        let mut state = ost.state();
        (state.seq, state.used, state.created) = (given.start, 0, 0);
        Ok(())
    }

    /// Creates objects ahead.
    fn create(&self, session: &Session, import: ImportId, ost: &Ost) -> Result<(), Failure> {
        let (seq, created, count) = {
            let state = ost.state();
            (state.seq, state.created, state.count)
        };
        if created > WIDTH - 2 * COUNT_MAX {
            return self.begin_sequence(session, import, ost);
        }
        let body = Obdo { valid: Valid::FLGROUP, ..Obdo::default() };
        match self.create_up_to(session, import, (seq, created + count), body) {
            Ok(last) => {
                let mut state = ost.state();
                // Files that need many get more at once.
                let was_empty = state.created - state.used <= state.count / 4;
                let more = if was_empty { state.count * 2 } else { state.count };
                state.count = more.min(COUNT_MAX);
                state.created = state.created.max(last);
                Ok(())
            }
            Err(Failure::Errno(Errno::ENOSPC)) => {
                ost.state().is_full = true;
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Requests objects up to a number. Returns the last one that exists.
    fn create_up_to(
        &self,
        session: &Session,
        import: ImportId,
        (seq, oid): (u64, u32),
        body: Obdo,
    ) -> Result<u32, Failure> {
        // An object number of 0 has no FID.
        let id = OstId::Fid(Fid { seq, oid: oid.max(1), version: 0 });
        let message = Message::request(&OST_CREATE).with(&OST_BODY, &Obdo { id, ..body });
        let reply = session.call(import, Request::new(message, REPLY).not_replayed())?;
        let made: Obdo = reply.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
        match made.id {
            OstId::Fid(fid) if fid.seq == seq => Ok(fid.oid),
            _ => Err(Errno::EPROTO.into()),
        }
    }

    fn ask_statfs(&self, session: &Session, import: ImportId, ost: &Ost) -> Result<(), Failure> {
        let message = Message::request(&OST_STATFS);
        let reply = session.call(import, Request::new(message, REPLY).at(portal::OST_CREATE))?;
        let statfs = reply.require(&STATFS).map_err(|_| Errno::EPROTO)?;
        ost.state().take_statfs(statfs);
        Ok(())
    }

    /// Has the OST do some of what committed transactions want of it, and forgets that when the OST has it
    /// on disk.
    fn send_tasks(&self, session: &Session, import: ImportId, ost: &Ost) -> Result<(), Failure> {
        ost.state().has_tasks = false;
        let (first, last) = (task_key(ost.index, 0), task_key(ost.index, u64::MAX));
        let (from, to) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let tasks = self.store.scan(TASKS, from, to, TASKS_MAX)?;
        if tasks.is_empty() {
            return Ok(());
        }
        let sent = self.send(session, import, &tasks);
        ost.state().has_tasks |= sent.is_err() || tasks.len() == TASKS_MAX;
        sent
    }

    fn send(
        &self,
        session: &Session,
        import: ImportId,
        tasks: &[(Vec<u8>, Value)],
    ) -> Result<(), Failure> {
        // What a crash could undo is not done.
        self.store.wait(self.store.applied())?;
        let sent: Result<Vec<_>, Failure> = tasks
            .iter()
            .map(|(_, value)| Ok(session.request(import, self.request(&read_task(value)?))?))
            .collect();
        let mut last_transno = 0;
        for request in sent? {
            match session.reply(import, request) {
                Ok(reply) => last_transno = last_transno.max(reply.body.transno),
                // It was done before.
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.wait_committed(session, import, last_transno)?;
        let mut transaction = self.store.begin();
        tasks.iter().for_each(|(key, _)| transaction.delete(TASKS, key));
        transaction.release_space();
        transaction.apply()?;
        Ok(())
    }

    /// Waits until the OST has a transaction on disk.
    fn wait_committed(
        &self,
        session: &Session,
        import: ImportId,
        transno: u64,
    ) -> Result<(), Failure> {
        loop {
            let message = Message::request(&OST_STATFS);
            let reply =
                session.call(import, Request::new(message, REPLY).at(portal::OST_CREATE))?;
            if reply.body.last_committed >= transno {
                return Ok(());
            }
            if !session.pause() {
                return Err(Errno::ETIMEDOUT.into());
            }
        }
    }

    fn request(&self, task: &super::OstTask) -> Request {
        let id = OstId::Fid(task.object);
        let named = Valid::FLID | Valid::FLGROUP;
        let message = match task.kind {
            TaskKind::SET_OWNER => {
                let valid = named | Valid::FLUID | Valid::FLGID | Valid::FLPROJID;
                let (uid, gid, projid) = (task.uid, task.gid, task.projid);
                let body = Obdo { valid, id, uid, gid, projid, ..Obdo::default() };
                Message::request(&OST_SETATTR).with(&OST_BODY, &body)
            }
            _ => {
                let valid = named | Valid::FLOBJCOUNT;
                let body = Obdo { valid, id, misc: 1, ..Obdo::default() };
                Message::request(&OST_DESTROY).with(&OST_BODY, &body)
            }
        };
        Request::new(message, REPLY).not_replayed().at(portal::OST_REQUEST)
    }
}
