//! LNet selftest on a node: the host of the selftest service.

mod data;

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_base::{BufferId, Errno, Span};
use fulmar_lnet_wire::selftest::Usage;
use fulmar_net::{Admin, Buffer, Host, Job, JobReport, Memory, Node, Running, Service, Slice};
use fulmar_selftest::console::{Answer, KeyedCommand};
use fulmar_selftest::{CommandId, Config, HostRequest, Notice, SelftestService, Task};
use tracing::Level;

/// A test node and a console of LNet selftest. Clones are handles to the same instance.
#[derive(Clone, Debug)]
pub struct Selftest(Running<SelftestHost>);

impl Selftest {
    /// Opens LNet selftest on a node.
    ///
    /// # Errors
    /// EPERM if another service uses one of its portals in another mode; ESHUTDOWN if the node was
    /// stopped, EIO if it has failed.
    pub fn open(node: &Node, config: Config) -> Result<Self, Errno> {
        let wall_clock = fulmar_net::wall_clock().saturating_sub(node.now().0);
        let machine = SelftestService::new(Config { wall_clock, ..config });
        let host = SelftestHost { node: node.admin(), state: Mutex::default() };
        let portals = SelftestService::portals();
        Running::start(node, SelftestService::CONFIG, machine, host, portals).map(Self)
    }

    /// Runs a command on the console and waits for its answer.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if it has failed.
    pub fn command(&self, command: KeyedCommand) -> Result<Answer, Errno> {
        let (waiting, answer) = sync_channel(1);
        let host = self.0.host();
        let own = host.node.first_small_nid();
        self.0.call(|machine, now| {
            let mut state = host.state();
            if !state.closed {
                let id = machine.command(now, own, command);
                state.waiting.insert(id, waiting);
            }
        })?;
        answer.recv().map_err(|_| match host.node.failure() {
            Some(_) => Errno::EIO,
            None => Errno::ESHUTDOWN,
        })
    }
}

/// Host functions of the selftest service.
#[derive(Debug)]
struct SelftestHost {
    node: Admin,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bulk memory, by buffer ID.
    buffers: BTreeMap<BufferId, Buffer>,
    /// Channels that wait for the answers to commands.
    waiting: BTreeMap<CommandId, SyncSender<Answer>>,
    closed: bool,
}

impl SelftestHost {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Panics
    /// If the service uses an unknown buffer.
    fn slice(&self, span: Span) -> Slice {
        let state = self.state();
        let buffer = &state.buffers[&span.buffer];
        buffer.slice(span.offset as usize..span.offset as usize + span.len as usize)
    }

    fn task(&self, task: Task) -> Option<Job<SelftestService>> {
        match task {
            Task::Allocate { buffer, len, contents } => {
                self.state().buffers.insert(buffer, data::allocate(len as usize, contents));
            }
            Task::Release { buffer } => drop(self.state().buffers.remove(&buffer)),
            Task::Damage { span, add } => data::damage_word(&self.slice(span), add),
            Task::Check { id, span, check, order } => {
                let slice = self.slice(span);
                return Some(Box::new(move || {
                    let result = data::check(&slice, check, order);
                    done(move |machine, now| machine.handle_checked(now, id, result))
                }));
            }
            Task::Measure { id } => {
                let node = self.node.clone();
                return Some(Box::new(move || {
                    let usage = measure(&node);
                    done(move |machine, now| machine.handle_measured(now, id, usage))
                }));
            }
        }
        None
    }
}

impl Host for SelftestHost {
    type Service = SelftestService;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        self.state().buffers.get(&buffer).map(Memory::from)
    }

    fn handle(
        &self,
        service: &Service,
        machine: &mut SelftestService,
        request: HostRequest,
    ) -> Option<Job<SelftestService>> {
        match request {
            HostRequest::Task(task) => return self.task(task),
            HostRequest::Count { id } => {
                machine.handle_counted(service.now(), id, &self.node.stats());
            }
            HostRequest::Answer { command, answer } => {
                if let Some(waiting) = self.state().waiting.remove(&command) {
                    // The receiver may have given up.
                    let _ = waiting.try_send(answer);
                }
            }
            HostRequest::Notice(notice) => service.log(level(&notice), &notice),
        }
        None
    }

    fn closed(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
    }
}

fn done(
    tell: impl FnOnce(&mut SelftestService, fulmar_base::Time) + Send + 'static,
) -> JobReport<SelftestService> {
    Box::new(tell)
}

fn level(notice: &Notice) -> Level {
    match notice {
        Notice::SessionBegun { .. } | Notice::SessionEnded { .. } => Level::INFO,
        _ => Level::WARN,
    }
}

/// Returns the resource usage of this process, and the TCP state of its connections.
fn measure(node: &Admin) -> Usage {
    let cpu = fulmar_net::processor_time().as_nanos();
    let cpu_ns = u64::try_from(cpu).unwrap_or(u64::MAX);
    let mut usage = Usage { cpu_ns, retransmits: 0, window: 0 };
    for conn in node.connections() {
        usage.retransmits = usage.retransmits.saturating_add(conn.tcp.retransmits);
        usage.window = usage.window.max(u32::try_from(conn.tcp.window).unwrap_or(u32::MAX));
    }
    usage
}

#[cfg(test)]
mod tests;
