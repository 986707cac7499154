//! An import, message by message.

mod bulk;
mod connect;
mod idle;
mod recorded;
mod recovery;
mod replay;
mod requests;
mod slots;
mod writes;

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2, Release};
use fulmar_lustre_wire::format::{self, CONNECT_DATA, STATFS};
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_lustre_wire::message::{ConnectOpFlags, EARLY_LEN, Message};
use fulmar_lustre_wire::{Handle, Status, Uuid};

use super::{Arrival, Import, Output, Request, RequestId, State, Target, TargetKind, Transmission};
use crate::XidSource;

/// The export that the target grants.
const EXPORT: Handle = Handle(0x5b78_e991_5370_3d85);

/// An import, and what it has put out.
struct Rig {
    import: Import,
    xids: XidSource,
    now: Time,
}

impl Rig {
    /// An OST with two NIDs.
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Target)) -> Self {
        let flags = ConnectFlags::FULL20
            | ConnectFlags::VERSION
            | ConnectFlags::AT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::FLAGS2;
        let data = ConnectData {
            flags,
            flags2: ConnectFlags2::REP_MBITS,
            version: Release::new(2, 17, 0, 0),
            ..ConnectData::default()
        };
        let uuid = Uuid::new("lv-OST0000_UUID").unwrap();
        let mut target = Target::new(TargetKind::Ost, uuid, vec![nid(1), nid(2)], data);
        target.connection = Handle(77);
        change(&mut target);
        let (import, xids) = (Import::new(target), XidSource::new(1_700_000_000));
        Self { import, xids, now: Time::from_secs(1000) }
    }

    /// A connected import.
    fn full() -> Self {
        let mut rig = Self::new();
        rig.connect();
        let connect = rig.sent();
        rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
        assert_eq!(rig.states(), [State::Full]);
        rig
    }

    fn connect(&mut self) {
        self.import.connect(self.now, &mut self.xids);
        assert_eq!(self.states(), [State::Connecting]);
    }

    fn request(&mut self) -> RequestId {
        self.import.request(self.now, &mut self.xids, statfs())
    }

    fn reply(&mut self, to: &Transmission, offset: usize, bytes: &[u8]) {
        let arrival = Arrival { offset: offset as u64, sent_len: bytes.len(), bytes };
        self.import.handle_reply(self.now, &mut self.xids, to.id, arrival);
    }

    /// Answers a connect.
    fn grant(&mut self, connect: &Transmission, export: Handle, flags: ConnectOpFlags) {
        let mut reply = Message::reply(&format::OST_CONNECT, Status::OK)
            .with(&CONNECT_DATA, &self.import.target().data);
        reply.body.handle = export;
        reply.body.connect_flags = flags;
        reply.body.service_time = 1;
        self.reply(connect, 0, &reply.to_bytes());
        self.import.outputs.retain(|output| *output != Output::Withdraw(connect.id));
    }

    /// Answers a connect or a request with an error.
    fn refuse(&mut self, to: &Transmission, errno: Errno) {
        let format = Message::decode(&to.bytes).unwrap().format();
        let reply = Message::error(format, Status::failed(errno));
        self.reply(to, EARLY_LEN, &reply.to_bytes());
    }

    /// Answers any request that was a transaction. `committed` is the last one on disk.
    fn execute(&mut self, to: &Transmission, transno: u64, committed: u64) {
        let format = message(to).format();
        let mut reply = Message::reply(format, Status::OK);
        (reply.body.transno, reply.body.last_committed) = (transno, committed);
        reply.body.pre_versions = [transno - 1, 1, 0, 0];
        reply.body.service_time = 1;
        self.reply(to, EARLY_LEN, &reply.to_bytes());
    }

    /// Answers a statfs.
    fn answer(&mut self, to: &Transmission) {
        self.reply(to, EARLY_LEN, &statfs_reply().to_bytes());
    }

    fn fail(&mut self, to: &Transmission, errno: Errno) {
        self.import.handle_failure(self.now, &mut self.xids, to.id, errno);
    }

    /// Waits until the import has something to do, and returns for how many seconds.
    fn wait(&mut self) -> f64 {
        let at = self.import.poll_timeout().expect("something will happen");
        let waited = at.since(self.now);
        self.now = at;
        self.import.handle_timeout(at, &mut self.xids);
        waited.as_secs_f64()
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.import.handle_timeout(self.now, &mut self.xids);
    }

    /// Returns the next output.
    fn next(&mut self) -> Output {
        self.import.poll_output().expect("there is an output")
    }

    /// Returns the next transmission, after changes of the state and withdrawals.
    fn sent(&mut self) -> Transmission {
        loop {
            match self.next() {
                Output::Transmit(transmission) => return transmission,
                Output::State(_) | Output::Withdraw(_) => {}
                output => panic!("{output:?} is no transmission"),
            }
        }
    }

    /// Returns the changes of the state up to the next output of another kind.
    fn states(&mut self) -> Vec<State> {
        let mut states = Vec::new();
        while let Some(Output::State(state)) = self.import.outputs.front() {
            states.push(*state);
            self.import.outputs.pop_front();
        }
        states
    }

    /// Returns the requests that have ended, and their errors.
    fn ended(&mut self) -> Vec<(RequestId, Result<Status, Errno>)> {
        let mut ended = Vec::new();
        while let Some(output) = self.import.poll_output() {
            if let Output::Done { request, result, .. } = output {
                ended.push((request, result.map(|reply| reply.body.status)));
            }
        }
        ended
    }

    fn is_quiet(&self) -> bool {
        self.import.outputs.is_empty()
    }
}

fn nid(last: u8) -> Nid {
    format!("10.0.0.{last}@tcp").parse().unwrap()
}

fn statfs() -> Request {
    Request::new(Message::request(&format::OST_STATFS), 384)
}

fn statfs_reply() -> Message<'static> {
    let mut reply = Message::reply(&format::OST_STATFS, Status::OK)
        .with(&STATFS, &Statfs { blocks: 99, ..Statfs::default() });
    (reply.body.timeout, reply.body.service_time) = (5, 1);
    reply
}

fn message(transmission: &Transmission) -> Message<'_> {
    Message::decode(&transmission.bytes).unwrap()
}
