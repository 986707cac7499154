//! What an import knows of its target from the configuration.

use std::time::Duration;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{self, Format};
use fulmar_lustre_wire::message::{Flavor, Job, Part};
use fulmar_lustre_wire::{Handle, Uuid, portal};

use crate::timeouts::Limits;

/// The kinds of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetKind {
    /// The management service.
    Mgs,
    /// A metadata target.
    Mdt,
    /// An object target.
    Ost,
    /// No target, but a client node, whose servers send callbacks. Nothing connects to it.
    Client,
}

impl TargetKind {
    /// Returns the portal of most requests. Spec: ptlrpc-ldlm-mgs §2.1.
    pub fn portal(self) -> u32 {
        match self {
            Self::Mgs => portal::MGS_REQUEST,
            Self::Mdt => portal::MDS_REQUEST,
            Self::Ost => portal::OST_REQUEST,
            Self::Client => portal::LDLM_CALLBACK_REQUEST,
        }
    }

    /// Returns whether this is a client node.
    pub fn is_client(self) -> bool {
        self == Self::Client
    }

    pub(crate) fn connect(self) -> &'static Format {
        match self {
            Self::Mgs => &format::MGS_CONNECT,
            Self::Mdt => &format::MDS_CONNECT,
            Self::Ost => &format::OST_CONNECT,
            Self::Client => &format::UNKNOWN,
        }
    }

    /// Returns the format of the DISCONNECT that ends a connection to it.
    pub fn disconnect(self) -> &'static Format {
        match self {
            Self::Mgs => &format::MGS_DISCONNECT,
            Self::Mdt => &format::MDS_DISCONNECT,
            Self::Ost => &format::OST_DISCONNECT,
            Self::Client => &format::UNKNOWN,
        }
    }

    /// Returns the part of the file system that requests of it are from.
    pub(super) fn part(self) -> Part {
        match self {
            Self::Mgs => Part::MGC,
            Self::Mdt | Self::Ost | Self::Client => Part::CLIENT,
        }
    }

    /// Returns what a target must grant, or the client cannot work with it.
    /// Spec: ptlrpc-ldlm-mgs §12.3.
    pub(super) fn needs(self) -> ConnectFlags {
        match self {
            Self::Mdt => ConnectFlags::FID | ConnectFlags::FULL20,
            Self::Mgs | Self::Ost | Self::Client => ConnectFlags::FULL20,
        }
    }
}

/// The sender of the requests of an import. Spec: ptlrpc-ldlm-mgs §5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The process, for information only.
    pub pid: i32,
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The job.
    pub job: Job,
}

/// A target, and how an import connects to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its UUID, or its name.
    pub uuid: Uuid,
    /// The UUID of this client, the same for all targets of a mount.
    pub client: Uuid,
    /// The handle by which callbacks of the target name this import.
    pub connection: Handle,
    /// The NIDs where it may be, in the order of preference.
    pub nids: Vec<Nid>,
    /// What is requested of it.
    pub data: ConnectData,
    /// How messages are protected. Spec: ptlrpc-ldlm-mgs §9.
    pub flavor: Flavor,
    /// The sender of requests.
    pub sender: Sender,
    /// The most requests in flight; further ones wait.
    pub in_flight_max: usize,
    /// The most requests with a slot in flight, if the target grants so many. Spec:
    /// ptlrpc-ldlm-mgs §6.6.
    pub modifying_max: u16,
    /// Whether the owner replays locks after a restart of the target.
    pub replays_locks: bool,
    /// A connection that is not used ends after so long, if at all. Spec: ptlrpc-ldlm-mgs §16.4.
    pub idle_timeout: Option<Duration>,
    /// The limits of the estimates of time.
    pub limits: Limits,
    /// An idle connection is pinged after so long. Spec: ptlrpc-ldlm-mgs §16.1.
    pub ping_interval: Duration,
}

impl Target {
    /// Returns a target with the usual limits.
    pub fn new(kind: TargetKind, uuid: Uuid, nids: Vec<Nid>, data: ConnectData) -> Self {
        Self {
            kind,
            uuid,
            client: Uuid::default(),
            connection: Handle::NONE,
            nids,
            data,
            flavor: Flavor::NULL,
            sender: Sender::default(),
            in_flight_max: 8,
            modifying_max: 7,
            replays_locks: false,
            idle_timeout: None,
            limits: Limits::default(),
            ping_interval: Duration::from_secs(25),
        }
    }
}
