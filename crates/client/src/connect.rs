//! The management service, and what it says of a file system.

use fulmar_base::Errno;
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Target, TargetKind};

use crate::parameters::{self, Setting};
use crate::{Address, Error, FileSystem, Session};

impl Session {
    /// Connects to the management service, at the first of its NIDs where it answers.
    ///
    /// # Errors
    /// [`Error::Network`], [`Error::Unreachable`] or [`Error::Refused`].
    pub fn connect_mgs(&mut self, address: &Address) -> Result<ImportId, Error> {
        let uuid = Uuid::new("MGS").expect("it is short");
        let usable = self.reach(&address.mgs);
        if usable.is_empty() {
            return Err(Error::Network { nid: address.mgs[0] });
        }
        let data = requested(TargetKind::Mgs);
        let target = Target::new(TargetKind::Mgs, uuid, usable.clone(), data);
        let import = self.connect(target).map_err(Error::Node)?;
        let nids = address.mgs.clone();
        match self.connected(import) {
            Ok(()) => Ok(import),
            Err(errno @ (Errno::EACCES | Errno::EPERM | Errno::EROFS)) => {
                Err(Error::Refused { nids, errno })
            }
            Err(errno) => Err(Error::Unreachable { nids, errno, lnet: self.first_of(&usable) }),
        }
    }

    /// Reads which targets a file system has.
    ///
    /// # Errors
    /// [`Error::NoFileSystem`], or why a log could not be read.
    pub fn file_system(&self, mgs: ImportId, address: &Address) -> Result<FileSystem, Error> {
        let (name, nids) = (address.name.clone(), address.mgs.clone());
        let records = match self.log(mgs, &format!("{name}-client")) {
            Ok(records) if records.is_empty() => return Err(Error::NoFileSystem { name, nids }),
            // What an MGS says of a name that cannot be one of its file systems.
            Err(Error::Request { errno: Errno::EINVAL, .. }) => {
                return Err(Error::NoFileSystem { name, nids });
            }
            read => read?,
        };
        let parameters = self.log(mgs, "params")?;
        Ok(FileSystem::of(&name, &records, &parameters))
    }

    /// Reads the parameters of a target, such as `lv-MDT0000`, in the order in which they count.
    ///
    /// # Errors
    /// Why a log could not be read.
    pub fn settings(&self, mgs: ImportId, target: &str) -> Result<Vec<Setting>, Error> {
        let (own, all) = (self.log(mgs, target)?, self.log(mgs, "params")?);
        Ok(parameters::settings(target, &own, &all))
    }
}

/// Returns what is requested of a target: what is needed to ask for its state. The connection leaves
/// no record at the target, and the target does not wait for this client when it recovers. An MGS
/// gets to know that this client takes part in imperative recovery, so that it does not switch that
/// off for the others. Spec: ptlrpc-ldlm-mgs §13.4, §28.1.
pub(crate) fn requested(kind: TargetKind) -> ConnectData {
    let every = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let target = ConnectFlags::FID | ConnectFlags::EINPROGRESS | ConnectFlags::LIGHTWEIGHT;
    let (flags, flags2) = match kind {
        TargetKind::Mgs => (ConnectFlags::IMP_RECOV, ConnectFlags2::LARGE_NID),
        TargetKind::Mdt => (target | ConnectFlags::ATTRFID, ConnectFlags2::NONE),
        TargetKind::Ost | TargetKind::Client => (target, ConnectFlags2::NONE),
    };
    ConnectData {
        flags: every | flags,
        flags2: ConnectFlags2::REP_MBITS | flags2,
        version: RELEASE,
        ..ConnectData::default()
    }
}
