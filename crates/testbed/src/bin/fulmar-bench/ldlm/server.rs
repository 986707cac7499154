//! A server that grants locks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_ldlm::server::{
    Config, Enqueue, Features, Namespace, Outcome, Output, RequestId as LockRequestId,
};
use fulmar_lustre_wire::format::{Format, LOCK_REPLY, LOCK_REQUEST, OST_LVB};
use fulmar_lustre_wire::ldlm::OstLvb;
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Opcode, Status, portal};
use fulmar_net::{Host, Job, Memory, Service};
use fulmar_rpc::HandleSource;
use fulmar_rpc::service::{PartitionConfig, Request, RequestId, Server, Task};

use crate::Failure;
use crate::rpc::server::{plain_reply, serve};

/// Serves until standard input ends.
pub(crate) fn run(port: u16) -> Result<(), Failure> {
    let partitions = vec![
        PartitionConfig::new("ost", &[portal::OST_REQUEST], 16 << 10),
        PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], 5 << 10),
    ];
    let mut handles = HandleSource::new(2);
    let locks = Namespace::new(Config::ost(), move || handles.issue());
    let host = LockHost(Mutex::new(State { locks, enqueues: BTreeMap::new() }));
    serve(port, partitions, &[Opcode::LDLM_ENQUEUE, Opcode::LDLM_CANCEL], host)
}

/// The host of the server.
struct LockHost(Mutex<State>);

struct State {
    locks: Namespace,
    /// The enqueues that have no reply yet, with their formats.
    enqueues: BTreeMap<LockRequestId, (RequestId, &'static Format)>,
}

impl LockHost {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for LockHost {
    type Service = Server;

    fn memory(&self, _buffer: BufferId) -> Option<Memory> {
        None
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        let (mut state, now) = (self.state(), service.now());
        match task {
            Task::Execute(request) => state.execute(now, server, &request),
            Task::Evicted { export, .. } => state.locks.handle_disconnect(now, export),
            Task::Transferred { .. }
            | Task::Called { .. }
            | Task::Confirmed { .. }
            | Task::Recovered { .. } => {}
            Task::PortalFailed { portal, errno } => eprintln!("portal {portal}: {errno}"),
        }
        state.follow(now, server);
        None
    }
}

impl State {
    fn execute(&mut self, now: Time, server: &mut Server, request: &Request) {
        let reply = match request.message.body.opcode {
            Opcode::LDLM_ENQUEUE => match self.enqueue(now, request) {
                Ok(()) => return,
                Err(errno) => Message::error(request.message.format(), Status::failed(errno)),
            },
            Opcode::LDLM_CANCEL => self.cancel(now, request),
            Opcode::OST_CONNECT => {
                self.locks.handle_connect(request.export, Features::default());
                plain_reply(request)
            }
            _ => plain_reply(request),
        };
        server.reply(now, request.id, reply);
    }

    fn enqueue(&mut self, now: Time, request: &Request) -> Result<(), Errno> {
        let lock = request.message.require(&LOCK_REQUEST).map_err(|_| Errno::EPROTO)?;
        let (id, export) = (LockRequestId(request.id.0), request.export);
        let is_resent = request.message.body.flags.has(MessageFlags::RESENT);
        self.enqueues.insert(id, (request.id, request.message.format()));
        let outcome = Outcome::Ordinary;
        let enqueue = Enqueue { request: id, export, lock, is_resent, outcome };
        self.locks.handle_enqueue(now, enqueue);
        Ok(())
    }

    fn cancel(&mut self, now: Time, request: &Request) -> Message<'static> {
        let lock = request.message.require(&LOCK_REQUEST).map_err(|_| Errno::EPROTO);
        let known = lock.and_then(|lock| self.locks.handle_cancel(now, request.export, &lock));
        let format = request.message.format();
        match known {
            Ok(0) => Message::error(format, Status::failed(Errno::ESTALE)),
            Ok(_) => Message::reply(format, Status::OK),
            Err(errno) => Message::error(format, Status::failed(errno)),
        }
    }

    /// Does what the locks want.
    fn follow(&mut self, now: Time, server: &mut Server) {
        while let Some(output) = self.locks.poll_output() {
            match output {
                Output::Reply { request, status, reply, lvb } => {
                    let Some((id, format)) = self.enqueues.remove(&request) else { continue };
                    let mut message = Message::reply(format, status).with(&LOCK_REPLY, &reply);
                    if let Some(lvb) = lvb {
                        message = message.with(&OST_LVB, &lvb);
                    }
                    server.reply(now, id, message);
                }
                Output::ReadLvb { resource } => {
                    self.locks.handle_lvb(now, resource, Ok(OstLvb::default()));
                }
                other => eprintln!("a lock is not uncontended: {other:?}"),
            }
        }
    }
}
