//! What a CONNECT says, and what of it can be judged without the target.
//! Spec: ptlrpc-ldlm-mgs §12.2.

use fulmar_base::Errno;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, Release};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA, CONNECTION};
use fulmar_lustre_wire::message::{ConnectOpFlags, Flavor, Message};
use fulmar_lustre_wire::{Handle, Uuid};

use super::Export;

/// A CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The client.
    pub client: Uuid,
    /// The client's node: the primary NID.
    pub peer: ProcessId,
    /// How the client protects its messages.
    pub flavor: Flavor,
    /// The client's handle for the connection.
    pub connection: Handle,
    /// The export that the client has, if any.
    pub handle: Handle,
    /// Which attempt of the client this is, from 1 on.
    pub count: u32,
    /// More about the connect.
    pub op_flags: ConnectOpFlags,
    /// The seconds that the client expects the service to take.
    pub estimate: u32,
    /// What the client requests.
    pub asked: ConnectData,
}

/// A client that may connect if the target agrees.
#[derive(Debug)]
pub struct Admission {
    /// Its export.
    pub export: Handle,
    /// Whether the client was connected before.
    pub is_reconnect: bool,
    /// Whether the export is new.
    pub is_new: bool,
    /// An earlier export of the client that was removed.
    pub evicted: Option<(Handle, Export)>,
}

impl Connect {
    /// The longest connect data in bytes: newer clients may send more than is known.
    const DATA_MAX: usize = 8 * ConnectData::LEN;
    /// By how much the patch levels of metadata servers may differ.
    const PATCH_DISTANCE: u8 = 3;

    /// Decodes a request from `peer`.
    ///
    /// # Errors
    /// EINVAL if the client's name or handle is missing, EPROTO if the data are not valid.
    pub fn decode(request: &Message<'_>, peer: ProcessId) -> Result<Self, Errno> {
        let client = request.require(&CLIENT_UUID).map_err(|_| Errno::EINVAL)?;
        let connection = request.require(&CONNECTION).map_err(|_| Errno::EINVAL)?;
        if request.bytes(&CONNECT_DATA).is_none_or(|bytes| bytes.len() > Self::DATA_MAX) {
            return Err(Errno::EPROTO);
        }
        let asked = request.require(&CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
        let body = &request.body;
        let (count, op_flags) = (body.connection_count, body.connect_flags);
        let (handle, estimate) = (body.handle, body.service_time);
        let flavor = request.head.flavor;
        Ok(Self { client, peer, flavor, connection, handle, count, op_flags, estimate, asked })
    }

    /// Checks what does not depend on exports.
    pub(super) fn check(&self) -> Result<(), Errno> {
        // It is printed, and names the client in parameters and logs.
        let name = self.client.as_bytes();
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(Errno::EINVAL);
        }
        let is_too_old = !self.asked.flags.has(ConnectFlags::FULL20);
        if is_too_old || self.op_flags.has(ConnectOpFlags::LIBCLIENT) {
            return Err(Errno::EPROTO);
        }
        let must_match = ConnectFlags::MDS_MDS | ConnectFlags::FID | ConnectFlags::VERSION;
        let is_mdt = self.asked.flags.has(must_match) && !self.is_lightweight();
        if self.is_initial() && is_mdt && !Self::is_compatible(self.asked.version) {
            return Err(Errno::EPROTO);
        }
        Ok(())
    }

    /// Returns whether a metadata server of this release works with one of ours.
    fn is_compatible(release: Release) -> bool {
        let [major, minor, patch, _] = release.parts();
        let [our_major, our_minor, our_patch, _] = crate::RELEASE.parts();
        (major, minor) == (our_major, our_minor)
            && patch.abs_diff(our_patch) <= Self::PATCH_DISTANCE
    }

    /// Returns whether the client has no export, as far as it knows.
    pub fn is_initial(&self) -> bool {
        self.op_flags.has(ConnectOpFlags::INITIAL)
    }

    /// Returns whether the target keeps no record of the client.
    pub(crate) fn is_lightweight(&self) -> bool {
        self.asked.flags.has(ConnectFlags::LIGHTWEIGHT)
    }

    /// Returns whether the client is a metadata target of the same file system.
    pub(super) fn is_from_mdt(&self) -> bool {
        self.asked.flags.has(ConnectFlags::MDS_MDS)
    }

    /// Returns whether the client is a server, whose earlier export is of no use after its restart.
    pub(super) fn is_from_server(&self) -> bool {
        let is_server = self.asked.flags.has(ConnectFlags::MDS) || self.is_lightweight();
        self.is_from_mdt() || self.is_initial() && is_server
    }
}
