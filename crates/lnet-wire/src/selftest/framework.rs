//! Sessions, batches and tests: what a console says to test nodes. Spec: lnet-selftest §4, §5.

use std::fmt;
use std::str::FromStr;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_struct};
use thiserror::Error;

use super::FEATURE_BULK_LEN;
use super::load::Direction;
use crate::{Nid, Pid, ProcessId};

/// Which session: the console's NID and a stamp of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId {
    /// The console; only small NIDs can be said.
    pub nid: Nid,
    /// Milliseconds of the console's clock when the session was made.
    pub stamp: i64,
}

impl SessionId {
    /// No session.
    pub const INVALID: Self = Self { nid: Nid::ANY, stamp: -1 };

    /// Returns whether this may be the id of a session.
    pub const fn is_valid(self) -> bool {
        !self.nid.is_any()
    }
}

impl Field for SessionId {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Ok(Self { nid: small_nid(r, name)?, stamp: i64::read(r, name)? })
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.nid.encode_small(w);
        self.stamp.write(w);
    }
}

/// Reads a NID that has only one way to be written.
fn small_nid(r: &mut Reader<'_>, field: &'static str) -> Result<Nid, DecodeError> {
    let got = r.u64(field)?;
    let nid = Nid::from_small(got);
    match nid.to_small() == Some(got) {
        true => Ok(nid),
        false => Err(DecodeError::Range { field, got }),
    }
}

/// The name of a session or a group: up to 31 bytes, and zeros. What a peer sent after the first zero
/// is not kept, so that equal names are equal values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; 32]);

impl Name {
    /// The name that nothing has.
    pub const EMPTY: Self = Self([0; 32]);
    /// The most bytes of a name.
    pub const LEN_MAX: usize = 31;

    /// Returns the bytes up to the first zero.
    pub fn bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a name has 1 to 31 bytes, none of them zero")]
pub struct NameError;

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() || bytes.len() > Self::LEN_MAX || bytes.contains(&0) {
            return Err(NameError);
        }
        let mut name = [0; 32];
        name[..bytes.len()].copy_from_slice(bytes);
        Ok(Self(name))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

impl Field for Name {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let mut bytes: [u8; 32] = r.array(name)?;
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(Self::LEN_MAX);
        bytes[len..].fill(0);
        Ok(Self(bytes))
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.0);
    }
}

wire_struct! {
    /// Enter a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct MakeSession {
        pub reply_id: u64,
        pub session: SessionId,
        /// Not 0: replace any other session.
        pub force: u32,
        pub name: Name,
    }
}

wire_struct! {
    /// Whether the node has entered it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct MakeSessionReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        /// The session that the node is in now.
        pub session: SessionId,
        /// Seconds of silence after which the node leaves it; 0 for never.
        pub timeout: u32,
        /// Of the session that is in the way; otherwise nothing.
        pub name: Name,
    }
}

wire_struct! {
    /// Leave a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct RemoveSession {
        pub reply_id: u64,
        pub session: SessionId,
    }
}

wire_struct! {
    /// Whether the node has left it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct RemoveSessionReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        /// The session that the node is in now.
        pub session: SessionId,
    }
}

wire_struct! {
    /// Are you there, and in which session?
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct DebugRequest {
        pub reply_id: u64,
        pub session: SessionId,
        pub flags: u32,
    }
}

wire_struct! {
    /// In this one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct DebugReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
        /// Seconds.
        pub timeout: u32,
        /// Nobody sets it.
        pub batches: u32,
        pub name: Name,
    }
}

wire_struct! {
    /// Let me in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct JoinRequest {
        pub reply_id: u64,
        /// The session to enter; any if it is invalid.
        pub session: SessionId,
        pub group: Name,
    }
}

wire_struct! {
    /// Whether the console lets the node in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct JoinReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
        /// Seconds.
        pub timeout: u32,
        pub name: Name,
    }
}

wire_enum! {
    /// A batch of a session, as its console numbers them.
    pub struct BatchId(u64) {
        /// None.
        NONE = 0,
    }
}

wire_enum! {
    /// What to do with a batch.
    pub struct BatchOperation(u32) {
        /// Start the clients' tests.
        RUN = 1,
        /// End them.
        STOP = 2,
        /// Tell what is running.
        QUERY = 3,
    }
}

wire_struct! {
    /// Run, stop or ask about a batch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Batch {
        pub reply_id: u64,
        pub session: SessionId,
        pub batch: BatchId,
        pub operation: BatchOperation,
        /// Of a query: which test of the node, from 1; 0 for the whole batch.
        pub test: u32,
        /// Of a run: a timeout that nobody heeds. Of a stop: not 0 to abort what is in flight.
        pub argument: u32,
    }
}

wire_struct! {
    /// What came of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct BatchReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
        /// Of a query: how many tests run, or how many units of the one test.
        pub active: u32,
        /// Nobody sets it.
        pub time: u32,
    }
}

/// The loop count of a test that goes on until it is stopped.
pub const LOOP_FOREVER: u32 = u32::MAX;

/// A test to install on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Test {
    pub reply_id: u64,
    /// Where a client fetches its destinations; 0 for a server.
    pub bulk_id: u64,
    pub session: SessionId,
    pub batch: BatchId,
    /// RPCs of each unit, [`LOOP_FOREVER`] for ever. For a server: how many may be outstanding.
    pub loops: u32,
    /// Units for each destination.
    pub concurrency: u32,
    pub is_client: bool,
    /// Whether a unit ends with its first error.
    pub stop_on_error: bool,
    /// How many [`Destination`]s there are.
    pub destinations: u32,
    pub kind: TestKind,
}

/// Which test, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TestKind {
    Ping {
        size: u32,
        flags: u32,
    },
    /// With [`FEATURE_BULK_LEN`].
    Brw {
        direction: Direction,
        flags: u16,
        /// Bytes of each transfer.
        len: u32,
        /// Where the data begin in the client's first page.
        offset: u32,
    },
    /// Without it.
    BrwPages {
        direction: Direction,
        /// Pages of the client in each transfer.
        pages: u32,
        flags: u32,
    },
    /// Of a service that we have never heard of.
    Unknown {
        service: u32,
        parameters: [u8; 12],
    },
}

const SERVICE_BRW: u32 = 11;
const SERVICE_PING: u32 = 12;

impl Test {
    pub(super) fn read(features: u32, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let reply_id = r.u64("Test.reply_id")?;
        let bulk_id = r.u64("Test.bulk_id")?;
        let session = Field::read(r, "Test.session")?;
        let batch = Field::read(r, "Test.batch")?;
        let service = r.u32("Test.service")?;
        let loops = r.u32("Test.loops")?;
        let concurrency = r.u32("Test.concurrency")?;
        let is_client = flag(r, "Test.is_client")?;
        let stop_on_error = flag(r, "Test.stop_on_error")?;
        let destinations = r.u32("Test.destinations")?;
        let kind = TestKind::read(service, features, r)?;
        Ok(Self {
            reply_id,
            bulk_id,
            session,
            batch,
            loops,
            concurrency,
            is_client,
            stop_on_error,
            destinations,
            kind,
        })
    }

    pub(super) fn write(&self, features: u32, w: &mut Writer<'_>) {
        w.u64(self.reply_id);
        w.u64(self.bulk_id);
        self.session.write(w);
        self.batch.write(w);
        w.u32(self.kind.service());
        w.u32(self.loops);
        w.u32(self.concurrency);
        w.u8(self.is_client.into());
        w.u8(self.stop_on_error.into());
        w.u32(self.destinations);
        self.kind.write(features, w);
    }
}

fn flag(r: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match r.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        got => Err(DecodeError::Range { field, got: got.into() }),
    }
}

impl TestKind {
    fn service(&self) -> u32 {
        match *self {
            Self::Ping { .. } => SERVICE_PING,
            Self::Brw { .. } | Self::BrwPages { .. } => SERVICE_BRW,
            Self::Unknown { service, .. } => service,
        }
    }

    fn read(service: u32, features: u32, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match service {
            SERVICE_PING => Self::Ping { size: r.u32("Test.size")?, flags: r.u32("Test.flags")? },
            SERVICE_BRW if features & FEATURE_BULK_LEN != 0 => Self::Brw {
                direction: Direction(r.u16("Test.opc")?.into()),
                flags: r.u16("Test.flags")?,
                len: r.u32("Test.len")?,
                offset: r.u32("Test.offset")?,
            },
            SERVICE_BRW => Self::BrwPages {
                direction: Direction(r.u32("Test.opc")?),
                pages: r.u32("Test.pages")?,
                flags: r.u32("Test.flags")?,
            },
            _ => Self::Unknown { service, parameters: r.array("Test.parameters")? },
        })
    }

    fn write(&self, features: u32, w: &mut Writer<'_>) {
        match *self {
            Self::Ping { size, flags } => {
                w.u32(size);
                w.u32(flags);
            }
            Self::Brw { direction, flags, len, offset } => {
                assert!(features & FEATURE_BULK_LEN != 0, "lengths in bytes are a feature");
                let opc = u16::try_from(direction.0);
                w.u16(opc.unwrap_or_else(|_| panic!("{direction:?} has 16 bits here")));
                w.u16(flags);
                w.u32(len);
                w.u32(offset);
            }
            Self::BrwPages { direction, pages, flags } => {
                assert!(features & FEATURE_BULK_LEN == 0, "the features say bytes, not pages");
                w.u32(direction.0);
                w.u32(pages);
                w.u32(flags);
            }
            Self::Unknown { parameters, .. } => w.bytes(&parameters),
        }
    }
}

wire_struct! {
    /// Whether the test is installed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct TestReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
    }
}

/// Where a client's load goes: one entry of the list that it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(pub ProcessId);

impl Destination {
    /// Bytes of an entry.
    pub const LEN: u32 = 12;
    /// The most entries of a list that every node understands: those of one page.
    pub const COUNT_MAX: u32 = 341;

    /// Returns the list as it is offered; without [`FEATURE_BULK_LEN`] that is a whole page.
    ///
    /// # Panics
    /// If there are more than [`COUNT_MAX`](Self::COUNT_MAX), or one has no small form.
    pub fn encode_list(list: &[ProcessId], features: u32) -> Vec<u8> {
        assert!(list.len() <= Self::COUNT_MAX as usize, "{} destinations", list.len());
        let mut bytes = Vec::with_capacity(PAGE);
        let mut w = Writer::new(&mut bytes, Order::Little);
        for process in list {
            Self(*process).write(&mut w);
        }
        if features & FEATURE_BULK_LEN == 0 {
            bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        }
        bytes
    }

    /// Reads the `count` entries of a list in the console's order. The entries of a page do not go
    /// over into the next.
    ///
    /// # Errors
    /// If it is cut off, or has what is no NID.
    pub fn decode_list(
        bytes: &[u8],
        count: u32,
        order: Order,
    ) -> Result<Vec<ProcessId>, DecodeError> {
        let mut pages = bytes.chunks(PAGE).map(|page| Reader::new(page, order));
        let mut page = pages.next().unwrap_or(Reader::new(&[], order));
        let entry = |index| {
            if index > 0 && index % Self::COUNT_MAX == 0 {
                page = pages.next().unwrap_or(page);
            }
            Self::read(&mut page, "destination").map(|entry| entry.0)
        };
        (0..count).map(entry).collect()
    }
}

const PAGE: usize = 4096;

impl Field for Destination {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let nid = small_nid(r, name)?;
        Ok(Self(ProcessId { nid, pid: Pid(r.u32(name)?) }))
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.0.nid.encode_small(w);
        w.u32(self.0.pid.0);
    }
}
