//! The RPC body: the first buffer of every message.

use std::fmt;

use fulmar_base::Errno;
use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_enum, wire_flags};
use serde::Serialize;

use crate::serial::as_text;
use crate::{Handle, Opcode, Service, Status};

/// What every message says about its request: `ptlrpc_body`, 184 bytes, or 152 bytes from old peers,
/// which send no job. Spec: ptlrpc-ldlm-mgs §5.
///
/// | offset | size | field |
/// |---:|---:|---|
/// | 0 | 8 | `handle` |
/// | 8 | 4 | `kind` |
/// | 12 | 4 | `service` << 16, and 3 |
/// | 16 | 4 | `opcode` |
/// | 20 | 4 | `status` |
/// | 24 | 8 | `last_xid` |
/// | 32 | 2 | `tag`; 2 zeros |
/// | 36 | 4 | `project` |
/// | 40 | 8 | `last_committed` |
/// | 48 | 8 | `transno` |
/// | 56 | 4 | `flags` |
/// | 60 | 4 | `connect_flags` |
/// | 64 | 4 | `connection_count` |
/// | 68 | 4 | `timeout` |
/// | 72 | 4 | `service_time` |
/// | 76 | 4 | `lock_limit` |
/// | 80 | 8 | `lock_volume` |
/// | 88 | 32 | `pre_versions` |
/// | 120 | 8 | `match_bits`; 16 zeros |
/// | 144 | 4 | `uid` |
/// | 148 | 4 | `gid` |
/// | 152 | 32 | `job` |
#[doc(alias = "ptlrpc_body")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Body {
    /// In a request, the receiver's object for the sender: its export, or the client's connection in
    /// a callback. In the reply to a connect, the new export.
    pub handle: Handle,
    /// Whether this is a request, a reply or an error.
    pub kind: Kind,
    /// The service of the operation; none in replies.
    pub service: Service,
    /// The operation.
    pub opcode: Opcode,
    /// The result; in a request, the sender's process id.
    pub status: Status,
    /// The client has the replies to all requests up to this one.
    #[serde(serialize_with = "crate::serial::hex")]
    pub last_xid: u64,
    /// The slot of a modifying request from 1 on, or 0.
    pub tag: u16,
    /// The project, if [`MessageFlags::PACK_PROJID`] is set.
    pub project: u32,
    /// In a reply, the last transaction of the target that is on disk.
    #[serde(serialize_with = "crate::serial::hex")]
    pub last_committed: u64,
    /// In a reply, the transaction of the operation, or 0. In a replay, that of its first reply.
    #[serde(serialize_with = "crate::serial::hex")]
    pub transno: u64,
    /// What kind of transmission this is.
    pub flags: MessageFlags,
    /// More about a connect.
    pub connect_flags: ConnectOpFlags,
    /// Which of the client's attempts to connect the connection is from.
    pub connection_count: u32,
    /// In a request, the seconds that the server has to reply. In a reply, its estimate.
    pub timeout: u32,
    /// In a reply, the seconds that the request was at the server.
    pub service_time: u32,
    /// In a reply, the most locks that the client should keep.
    #[doc(alias = "pb_limit")]
    pub lock_limit: u32,
    /// In a reply, the server's lock volume.
    #[doc(alias = "pb_slv")]
    pub lock_volume: u64,
    /// The versions of the objects before the operation.
    pub pre_versions: [u64; 4],
    /// The match bits of the reply and of the last part of the bulk data.
    #[doc(alias = "pb_mbits")]
    #[serde(serialize_with = "crate::serial::hex")]
    pub match_bits: u64,
    /// The user, if [`MessageFlags::PACK_UID_GID`] is set.
    pub uid: u32,
    /// The group, likewise.
    pub gid: u32,
    /// The job of the process; `None` in a body of 152 bytes.
    pub job: Option<Job>,
}

wire_enum! {
    /// The kind of a message.
    pub struct Kind(u32) {
        /// A request.
        REQUEST = 4711,
        /// The reply that the request was not processed.
        ERROR = 4712,
        /// A reply.
        REPLY = 4713,
    }
}

wire_flags! {
    /// What kind of transmission a message is, and which fields are valid.
    pub struct MessageFlags(u32) {
        /// The request was sent before, without a reply.
        RESENT = 0x2,
        /// The request was executed before, and is repeated after a restart of the server.
        REPLAY = 0x4,
        /// The client has replayed all its requests.
        REQ_REPLAY_DONE = 0x40,
        /// The client has replayed all its locks.
        LOCK_REPLAY_DONE = 0x80,
        /// In a reply: the client is banned.
        CLIENT_BANNED = 0x100,
        /// `uid` and `gid` are valid.
        PACK_UID_GID = 0x200,
        /// `project` is valid.
        PACK_PROJID = 0x400,
    }
}

impl MessageFlags {
    /// Returns whether the server may have executed the request before, in part or as a whole.
    pub fn is_repeated(self) -> bool {
        self.has(Self::RESENT) || self.has(Self::REPLAY)
    }
}

wire_flags! {
    /// More about a connect.
    pub struct ConnectOpFlags(u32) {
        /// In a reply: the target recovers, and the client takes part.
        RECOVERING = 0x1,
        /// In a reply: the target knows the client.
        RECONNECT = 0x2,
        /// In a reply: requests can be replayed.
        REPLAYABLE = 0x4,
        /// A client without a kernel, which is refused.
        LIBCLIENT = 0x10,
        /// The client has no export yet.
        INITIAL = 0x20,
        /// Historic.
        NEXT_VER = 0x80,
        /// The client has requests to replay.
        TRANSNO = 0x100,
    }
}

/// The name of a job: text of at most 32 bytes, filled with zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Job(pub [u8; 32]);

impl Body {
    /// The length that is sent.
    pub const LEN: usize = 184;
    /// The length that old peers send.
    pub const LEN_OLD: usize = 152;

    /// Returns the length of this body in bytes.
    pub(super) fn encoded_len(&self) -> usize {
        if self.job.is_some() { Self::LEN } else { Self::LEN_OLD }
    }
    /// The version of the body.
    const VERSION: u32 = 3;

    /// Returns the body of a request, with nothing but its operation.
    pub fn request(opcode: Opcode) -> Self {
        Self { service: opcode.service(), ..Self::new(Kind::REQUEST, opcode) }
    }

    /// Returns the body of a reply.
    pub fn reply(opcode: Opcode, status: Status) -> Self {
        Self { status, ..Self::new(Kind::REPLY, opcode) }
    }

    /// Returns the body of a reply to a request that was not processed. Failures that are part of the
    /// work are ordinary replies: kernel clients write all others to their log. Spec:
    /// ptlrpc-ldlm-mgs §6.4.
    pub fn error(opcode: Opcode, status: Status) -> Self {
        const ORDINARY: [Errno; 7] = [
            Errno::ENOSPC,
            Errno::EACCES,
            Errno::EPERM,
            Errno::ENOENT,
            Errno::EINPROGRESS,
            Errno::EDQUOT,
            Errno::EROFS,
        ];
        let is_ordinary = status.errno().is_some_and(|errno| ORDINARY.contains(&errno));
        let kind = if is_ordinary { Kind::REPLY } else { Kind::ERROR };
        Self { status, ..Self::new(kind, opcode) }
    }

    fn new(kind: Kind, opcode: Opcode) -> Self {
        Self {
            handle: Handle::NONE,
            kind,
            service: Service::NONE,
            opcode,
            status: Status::OK,
            last_xid: 0,
            tag: 0,
            project: 0,
            last_committed: 0,
            transno: 0,
            flags: MessageFlags::NONE,
            connect_flags: ConnectOpFlags::NONE,
            connection_count: 0,
            timeout: 0,
            service_time: 0,
            lock_limit: 0,
            lock_volume: 0,
            pre_versions: [0; 4],
            match_bits: 0,
            uid: 0,
            gid: 0,
            job: Some(Job::default()),
        }
    }
}

impl Field for Body {
    /// Reads a body from the whole buffer; bytes after [`Body::LEN`] are ignored.
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let handle = Field::read(r, "body.handle")?;
        let kind = Field::read(r, "body.kind")?;
        let version = r.u32("body.version")?;
        if version & 0xffff != Self::VERSION {
            return Err(DecodeError::Version { got: version });
        }
        Ok(Self {
            handle,
            kind,
            service: Service((version >> 16) as u16),
            opcode: Field::read(r, "body.opcode")?,
            status: Field::read(r, "body.status")?,
            last_xid: r.u64("body.last_xid")?,
            tag: r.u16("body.tag")?,
            project: {
                r.take("body.padding", 2)?;
                r.u32("body.project")?
            },
            last_committed: r.u64("body.last_committed")?,
            transno: r.u64("body.transno")?,
            flags: Field::read(r, "body.flags")?,
            connect_flags: Field::read(r, "body.connect_flags")?,
            connection_count: r.u32("body.connection_count")?,
            timeout: r.u32("body.timeout")?,
            service_time: r.u32("body.service_time")?,
            lock_limit: r.u32("body.lock_limit")?,
            lock_volume: r.u64("body.lock_volume")?,
            pre_versions: Field::read(r, "body.pre_versions")?,
            match_bits: r.u64("body.match_bits")?,
            uid: {
                r.take("body.padding", 16)?;
                r.u32("body.uid")?
            },
            gid: r.u32("body.gid")?,
            job: r.array("body.job").ok().map(Job),
        })
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.handle.write(w);
        self.kind.write(w);
        w.u32(u32::from(self.service.0) << 16 | Self::VERSION);
        self.opcode.write(w);
        self.status.write(w);
        w.u64(self.last_xid);
        w.u16(self.tag);
        w.zeros(2);
        w.u32(self.project);
        w.u64(self.last_committed);
        w.u64(self.transno);
        self.flags.write(w);
        self.connect_flags.write(w);
        w.u32(self.connection_count);
        w.u32(self.timeout);
        w.u32(self.service_time);
        w.u32(self.lock_limit);
        w.u64(self.lock_volume);
        self.pre_versions.write(w);
        w.u64(self.match_bits);
        w.zeros(16);
        w.u32(self.uid);
        w.u32(self.gid);
        if let Some(job) = self.job {
            w.bytes(&job.0);
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        write!(f, "{}", name.escape_ascii())
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

as_text!(Job);
