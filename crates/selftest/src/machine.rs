//! The public interface of the machine: inputs, outputs and time.

use std::collections::VecDeque;

use fulmar_base::{Errno, Span, Table, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{BatchId, Check, Damage, LnetCounters, Usage};
use fulmar_wire::Order;

use crate::api::{
    CommandId, Config, OperationId, OperationResult, Output, QuestionId, Request, Task,
};
use crate::brw::Transfer;
use crate::console::{Console, KeyedCommand};
use crate::memory::Memory;
use crate::notice::Notice;
use crate::rpc::{Caller, Rpcs};
use crate::serve::{Client, Server};
use crate::session::Sessions;
use crate::unit::{Instances, UnitId};

/// The selftest of one node: a test node and a console.
#[derive(Debug)]
pub struct Selftest {
    pub(crate) config: Config,
    pub(crate) rpcs: Rpcs,
    pub(crate) memory: Memory,
    pub(crate) server: Server,
    /// Whether a request of a console waits for the owner, and others for it.
    pub(crate) is_answering: bool,
    pub(crate) sessions: Sessions,
    pub(crate) instances: Instances,
    /// The number of the next ping of any unit.
    pub(crate) ping_sequence: u32,
    pub(crate) console: Console,
    next_command: u64,
    pub(crate) questions: Table<Question>,
    pub(crate) outputs: VecDeque<Output>,
}

/// A query to the owner.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether data written by a client is good.
    Transfer(Transfer),
    /// Whether data read by a unit is good.
    Unit(UnitId),
    /// The counters of LNet.
    Counters(Client),
    /// The resource usage of the node; the reply has the buckets from this one on, too.
    Cost(Client, usize),
}

impl Selftest {
    /// Creates a node that is in no session.
    pub fn new(config: Config) -> Self {
        Self {
            rpcs: Rpcs::new(&config),
            memory: Memory::new(config.inject_errors),
            server: Server::default(),
            is_answering: false,
            sessions: Sessions::default(),
            instances: Instances::default(),
            ping_sequence: 0,
            console: Console::new(&config),
            next_command: 0,
            questions: Table::default(),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Handles a message that was sent to portal 50 or 51.
    pub fn handle_request(&mut self, now: Time, request: Request<'_>) {
        self.receive(now, request);
        self.settle(now);
    }

    /// Handles the end of an operation.
    ///
    /// # Panics
    /// If the operation does not exist or has already ended.
    pub fn handle_done(
        &mut self,
        now: Time,
        id: OperationId,
        result: Result<OperationResult, Errno>,
    ) {
        match id.server_number() {
            Some(number) => self.server_done(now, number, result),
            None => self.rpcs.handle_done(now, id, result),
        }
        self.settle(now);
    }

    /// Handles the answer to [`Task::Check`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_checked(&mut self, now: Time, id: QuestionId, result: Result<(), Damage>) {
        match self.questions.remove(id.0) {
            Some(Question::Transfer(transfer)) => self.transfer_checked(now, transfer, result),
            Some(Question::Unit(unit)) => self.unit_checked(now, unit, result),
            other => panic!("{id:?} is not a check but {other:?}"),
        }
        self.settle(now);
    }

    /// Handles the answer to [`Output::Count`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_counted(&mut self, now: Time, id: QuestionId, lnet: LnetCounters) {
        match self.questions.remove(id.0) {
            Some(Question::Counters(client)) => self.counted(now, client, lnet),
            other => panic!("{id:?} is not a counter query but {other:?}"),
        }
        self.settle(now);
    }

    /// Returns the RPCs of a batch that this node sent as a client, and that were answered.
    pub fn answered(&self, batch: BatchId) -> u64 {
        self.instances.answered(batch)
    }

    /// Handles the answer to [`Task::Measure`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_measured(&mut self, now: Time, id: QuestionId, usage: Usage) {
        match self.questions.remove(id.0) {
            Some(Question::Cost(client, first)) => self.measured(now, client, first, usage),
            other => panic!("{id:?} is not a measurement but {other:?}"),
        }
        self.settle(now);
    }

    /// Handles a command of an administrator; [`Output::Answer`] answers it. `nid` is the first
    /// local NID of 4 bytes except `0@lo`; it identifies sessions of the console.
    pub fn command(&mut self, now: Time, nid: Option<Nid>, command: KeyedCommand) -> CommandId {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        self.console.begin(now, id, nid, command, &mut self.rpcs);
        self.settle(now);
        id
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.rpcs.handle_timeout(now);
        self.sweep(now);
        self.expire_session(now);
        self.resume_units(now);
        self.console.handle_timeout(now, &mut self.rpcs);
        self.settle(now);
    }

    /// Returns when to call [`Selftest::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = [
            self.rpcs.poll_timeout(),
            self.server.next_sweep,
            self.session_deadline(),
            self.instances.next_resume(),
            self.console.poll_timeout(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        // Memory first: later outputs use what is allocated, and none uses what is released.
        if let Some(task) = self.memory.poll_output() {
            return Some(Output::Task(task));
        }
        while let Some(output) = self.outputs.pop_front() {
            match output {
                // It ended by itself meanwhile.
                Output::Withdraw { id } if !self.server.is_open(id) => {}
                output => return Some(output),
            }
        }
        self.rpcs.poll_output()
    }

    /// Processes the consequences of an input.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(finished) = self.rpcs.poll_finished() {
                match finished.caller {
                    Caller::Unit(unit) => {
                        self.unit_finished(now, UnitId::of_number(unit), finished);
                    }
                    Caller::Console(tag) => {
                        self.console.handle_finished(now, tag, finished, &mut self.rpcs);
                    }
                }
            } else if let Some(incoming) = self.server.load.pop() {
                self.serve_load(now, incoming);
            } else if let Some(unit) = self.instances.calls.pop() {
                self.call(now, unit);
            } else if !self.serve_framework(now) {
                break;
            }
        }
        while let Some((command, answer)) = self.console.poll_answer() {
            self.outputs.push_back(Output::Answer { command, answer });
        }
        if self.sessions.is_empty() {
            self.memory.tidy();
        }
        self.assert_counts();
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    /// Returns a new query ID for the owner.
    pub(crate) fn ask(&mut self, question: Question) -> QuestionId {
        QuestionId(self.questions.insert(question))
    }

    /// Requests a check of data from a machine with this byte order.
    pub(crate) fn ask_check(&mut self, question: Question, span: Span, check: Check, order: Order) {
        let id = self.ask(question);
        self.outputs.push_back(Output::Task(Task::Check { id, span, check, order }));
    }
}
