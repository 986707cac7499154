//! Sessions, batches and tests: the messages of a console to test nodes. Spec: lnet-selftest §4,
//! §5.

use std::fmt;
use std::str::FromStr;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_struct};
use thiserror::Error;

use super::FEATURE_BULK_LEN;
use super::load::Direction;
use crate::{Nid, Pid, ProcessId};

/// The id of a session: the console's NID and a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId {
    /// The console; the protocol has only small NIDs.
    pub nid: Nid,
    /// Milliseconds of the console's clock when the session was created.
    pub stamp: i64,
}

impl SessionId {
    /// No session.
    pub const INVALID: Self = Self { nid: Nid::ANY, stamp: -1 };

    /// Returns whether this can be the id of a session.
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

/// Reads a NID, and requires its canonical form.
fn small_nid(r: &mut Reader<'_>, field: &'static str) -> Result<Nid, DecodeError> {
    let got = r.u64(field)?;
    let nid = Nid::from_small(got);
    if nid.to_small() == Some(got) { Ok(nid) } else { Err(DecodeError::Range { field, got }) }
}

/// The name of a session or a group: up to 31 bytes, padded with zeros. Bytes after the first zero
/// are not kept, so that equal names are equal values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; 32]);

impl Name {
    /// The empty name.
    pub const EMPTY: Self = Self([0; 32]);
    /// The maximum length of a name in bytes.
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
    /// A request to enter a session.
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
    /// The reply to [`MakeSession`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct MakeSessionReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        /// The session that the node is in now.
        pub session: SessionId,
        /// Seconds of inactivity after which the node leaves it; 0 for never.
        pub timeout: u32,
        /// The name of the session that occupies the node; otherwise empty.
        pub name: Name,
    }
}

wire_struct! {
    /// A request to leave a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct RemoveSession {
        pub reply_id: u64,
        pub session: SessionId,
    }
}

wire_struct! {
    /// The reply to [`RemoveSession`].
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
    /// A liveness check, which also returns the session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct DebugRequest {
        pub reply_id: u64,
        pub session: SessionId,
        pub flags: u32,
    }
}

wire_struct! {
    /// The reply to [`DebugRequest`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct DebugReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
        /// Seconds.
        pub timeout: u32,
        /// Not used.
        pub batches: u32,
        pub name: Name,
    }
}

wire_struct! {
    /// A node's request to enter the console's session.
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
    /// The reply to [`JoinRequest`].
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
    /// The id of a batch, assigned by the console.
    pub struct BatchId(u64) {
        /// None.
        NONE = 0,
    }
}

wire_enum! {
    /// An operation on a batch.
    pub struct BatchOperation(u32) {
        /// Start the clients' tests.
        RUN = 1,
        /// Stop them.
        STOP = 2,
        /// Report what is running.
        QUERY = 3,
    }
}

wire_struct! {
    /// A request to run, stop or query a batch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Batch {
        pub reply_id: u64,
        pub session: SessionId,
        pub batch: BatchId,
        pub operation: BatchOperation,
        /// Of a query: the number of the test, from 1; 0 for the whole batch.
        pub test: u32,
        /// Of a run: a timeout that nodes ignore. Of a stop: not 0 to abort RPCs in flight.
        pub argument: u32,
    }
}

wire_struct! {
    /// The reply to [`Batch`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct BatchReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
        /// Of a query: the number of running tests, or of running units of the one test.
        pub active: u32,
        /// Not used.
        pub time: u32,
    }
}

/// The loop count of a test that runs until it is stopped.
pub const LOOP_FOREVER: u32 = u32::MAX;

/// A request to install a test on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Test {
    pub reply_id: u64,
    /// The match bits by which a client fetches its destinations; 0 for a server.
    pub bulk_id: u64,
    pub session: SessionId,
    pub batch: BatchId,
    /// RPCs of each unit, or [`LOOP_FOREVER`]. For a server: how many may be outstanding.
    pub loops: u32,
    /// Units for each destination.
    pub concurrency: u32,
    pub is_client: bool,
    /// Whether a unit stops at its first error.
    pub stop_on_error: bool,
    /// The number of [`Destination`]s.
    pub destinations: u32,
    pub kind: TestKind,
}

/// The kind of a test, with its parameters.
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
        /// The offset of the data in the client's first page.
        offset: u32,
    },
    /// Without [`FEATURE_BULK_LEN`].
    BrwPages {
        direction: Direction,
        /// Pages of the client in each transfer.
        pages: u32,
        flags: u32,
    },
    /// Of an unknown service.
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
                assert!(features & FEATURE_BULK_LEN != 0, "lengths in bytes need the feature");
                let opc = u16::try_from(direction.0);
                w.u16(opc.unwrap_or_else(|_| panic!("{direction:?} exceeds 16 bits")));
                w.u16(flags);
                w.u32(len);
                w.u32(offset);
            }
            Self::BrwPages { direction, pages, flags } => {
                assert!(features & FEATURE_BULK_LEN == 0, "lengths in pages exclude the feature");
                w.u32(direction.0);
                w.u32(pages);
                w.u32(flags);
            }
            Self::Unknown { parameters, .. } => w.bytes(&parameters),
        }
    }
}

wire_struct! {
    /// The reply to [`Test`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct TestReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        pub session: SessionId,
    }
}

/// A target of a client's load: one entry of the list that it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(pub ProcessId);

impl Destination {
    /// Bytes of an entry.
    pub const LEN: u32 = 12;
    /// The most entries of a list that every node understands: one page.
    pub const COUNT_MAX: u32 = 341;

    /// Encodes the list; without [`FEATURE_BULK_LEN`] the result is a whole page.
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

    /// Reads the `count` entries of a list in the console's byte order. No entry spans two pages.
    ///
    /// # Errors
    /// If bytes are missing, or a NID is not valid.
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
