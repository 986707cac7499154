//! LNet selftest on the machine: runs the commands of the recorded administrator, and holds the
//! memory.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{BufferId, Payload, Sink, Span, Time};
use fulmar_lnet::{Event, Service, ServiceId};
use fulmar_lnet_wire::Header;
use fulmar_lnet_wire::selftest::{
    FRAMEWORK_PORTAL, GOOD, LnetCounters, REQUEST_PORTAL, Usage, WORD, fill, fill_poison, verify,
};
use fulmar_node::Node;
use fulmar_selftest::console::{Answer as ConsoleAnswer, Command, KeyedCommand, Reply};
use fulmar_selftest::{CommandId, Config, Contents, HostRequest, SelftestService, Task};

use crate::names::Names;
use crate::scripts::{Expected, Script};

/// State of the selftest of the recorded node when the recording started.
pub(crate) struct Start {
    /// The high 16 bits of its IDs: the clock when it was loaded.
    pub(crate) base: u16,
    /// Earlier counters of LNet.
    pub(crate) earlier: LnetCounters,
    /// The commands of its administrator, if it is a console.
    pub(crate) script: Script,
}

/// The selftest of the replaced node.
pub(crate) struct Upper {
    service: SelftestService,
    id: ServiceId,
    script: VecDeque<(Command, Expected)>,
    /// The command without an answer yet.
    asked: Option<(CommandId, Expected)>,
    buffers: BTreeMap<BufferId, Vec<u8>>,
    pub(crate) names: Names,
}

impl Upper {
    pub(crate) fn new(start: Start) -> Self {
        let wall_clock = u64::from(start.base) * 1_000_000_000;
        Self {
            service: SelftestService::new(Config { wall_clock, ..Config::default() }),
            // The memory of the player is the first service, this is the second.
            id: ServiceId(1),
            script: start.script.into(),
            asked: None,
            buffers: BTreeMap::new(),
            names: Names::new(start.earlier),
        }
    }

    /// Opens the portals of the selftest.
    pub(crate) fn open(&mut self, now: Time, node: &mut Node) {
        self.id = node.open_service(SelftestService::CONFIG);
        node.service(now, self.id).post(SelftestService::portals(), |opened| {
            opened.expect("the portals are free");
        });
    }

    /// Passes an event to the selftest, if it belongs to it.
    pub(crate) fn handle_event(
        &mut self,
        now: Time,
        service: ServiceId,
        event: &Event,
        bytes: Vec<u8>,
    ) -> bool {
        if service == self.id {
            self.service.handle_event(now, event, bytes);
        }
        service == self.id
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.service.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.service.handle_timeout(now);
    }

    /// Executes outputs of the selftest; returns whether there were any.
    pub(crate) fn serve(&mut self, now: Time, node: &mut Node) -> bool {
        let mut served = false;
        while let Some(request) = node.service(now, self.id).serve(&mut self.service) {
            served = true;
            self.handle_request(now, node, request);
        }
        served
    }

    /// Returns whether a missing message may follow from the next command: a request of the
    /// console, or the load of a batch to run.
    pub(crate) fn may_command(&self, portal: Option<u32>) -> bool {
        match portal {
            Some(REQUEST_PORTAL) => matches!(self.script.front(), Some((Command::Run { .. }, _))),
            portal => portal.is_none_or(|portal| portal == FRAMEWORK_PORTAL),
        }
    }

    /// Executes the next command, unless the last is not answered; returns whether it did.
    pub(crate) fn command(&mut self, now: Time, node: &Node) -> bool {
        if self.asked.is_some() {
            return false;
        }
        let Some((command, expected)) = self.script.pop_front() else { return false };
        println!("{now} {command:?}");
        let own = node.lnet().first_small_nid();
        let id = self.service.command(now, own, KeyedCommand { key: 379, command });
        self.asked = Some((id, expected));
        true
    }

    /// Returns whether a command is in progress.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    fn handle_answer(&mut self, command: CommandId, answer: &ConsoleAnswer) {
        let (asked, expected) = self.asked.take().expect("an answer has a command");
        assert_eq!(command, asked);
        expected.require(answer);
        // A kernel node reports its counters: the console must decode them.
        if let Ok(Reply::Stats(answers)) = answer {
            for stats in answers.iter().filter_map(|answer| answer.result.as_ref().ok()) {
                assert_eq!((stats.brw_errors, stats.ping_errors, stats.rpcs_expired), (0, 0, 0));
                assert!(stats.recv_count > 0 && stats.send_length > 0, "{stats:?}");
            }
        }
    }

    /// Executes host requests.
    fn handle_request(&mut self, now: Time, node: &Node, request: HostRequest) {
        match request {
            HostRequest::Task(Task::Allocate { buffer, len, contents }) => {
                let mut bytes = vec![0; len as usize];
                match contents {
                    Contents::Zeros => {}
                    Contents::Good => fill(&mut bytes),
                }
                assert_eq!(self.buffers.insert(buffer, bytes), None, "{buffer:?} is used twice");
            }
            HostRequest::Task(Task::Release { buffer }) => {
                self.buffers.remove(&buffer).expect("only allocated buffers are released");
            }
            HostRequest::Task(Task::Check { id, span, check, order }) => {
                let bytes = self.bytes_mut(span);
                let result = verify(bytes, 0, check, order);
                fill_poison(bytes);
                self.service.handle_checked(now, id, result);
            }
            HostRequest::Task(Task::Measure { id }) => {
                self.service.handle_measured(now, id, Usage::default());
            }
            HostRequest::Count { id } => {
                self.service.handle_counted(now, id, &node.lnet().stats());
            }
            HostRequest::Answer { command, answer } => self.handle_answer(command, &answer),
            HostRequest::Notice(notice) => println!("{now} {notice}"),
            HostRequest::Task(Task::Damage { .. }) => panic!("no damage is configured"),
        }
    }

    fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        let buffer = self.buffers.get_mut(&span.buffer).expect("the buffer is allocated");
        &mut buffer[span.offset as usize..][..span.len as usize]
    }

    /// Stores bytes of a message that have a destination.
    pub(crate) fn store(&mut self, sink: &Sink, bytes: &[u8]) {
        if let Sink::Span(span) = *sink {
            self.bytes_mut(span)[..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Returns the bytes that are being sent.
    pub(crate) fn bytes_of(&mut self, payload: &Payload) -> Vec<u8> {
        match payload {
            Payload::Empty => vec![],
            Payload::Inline(bytes) => bytes.to_vec(),
            Payload::Span(span) => self.bytes_mut(*span).to_vec(),
        }
    }

    /// Checks a message that the machine and the recorded node both sent.
    pub(crate) fn sent(&mut self, header: &Header, ours: &[u8], recorded: &[u8]) {
        if self.names.learn(header, ours, recorded) || ours == recorded {
            return;
        }
        // Bulk: where the recorded node has good data the machine must too; it may have more.
        assert_eq!(ours.len(), recorded.len(), "{header:?}");
        assert!(ours.len().is_multiple_of(WORD), "{header:?}: {ours:02x?}, not {recorded:02x?}");
        for (ours, recorded) in ours.chunks(WORD).zip(recorded.chunks(WORD)) {
            assert!(ours == recorded || ours == GOOD.to_le_bytes(), "{header:?}: {ours:02x?}");
        }
    }

    /// Requires that all commands were run and nothing is left.
    pub(crate) fn finish(&self) {
        assert_eq!(self.asked, None);
        assert!(self.script.is_empty(), "unused commands: {:?}", self.script);
        self.names.finish();
        let selftest = self.service.machine();
        selftest.check_invariants().expect("the selftest is consistent");
        selftest.is_idle().expect("the selftest is idle");
        assert!(self.buffers.is_empty(), "never released: {:?}", self.buffers.keys());
    }
}
