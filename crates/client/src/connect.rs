//! The management service, and what it says of a file system.

use fulmar_base::Errno;
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::ost::ChecksumTypes;
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Target, TargetKind};

use crate::parameters::{self, Setting};
use crate::{Address, Configuration, Error, Session};

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
    pub fn file_system(&self, mgs: ImportId, address: &Address) -> Result<Configuration, Error> {
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
        Ok(Configuration::of(&name, &records, &parameters))
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

/// The largest bulk transfers that a mount asks an MDT and an OST for.
const MDT_BRW_MAX: u32 = 1 << 20;
const OST_BRW_MAX: u32 = 16 << 20;
/// The space that a client wants to be granted at first. Spec: mdt-ost §19.2.
const GRANT: u32 = 128 << 20;

/// Returns what a mount requests of a target: what a kernel client of release 2.17 does, as far as this
/// client does what it promises. Spec: mdt-ost §1.7, ptlrpc-ldlm-mgs §13.4.
pub(crate) fn of_mount(kind: TargetKind) -> ConnectData {
    type F = ConnectFlags;
    let data = requested(kind);
    let both = F::GRANT | F::GRANT_PARAM | F::SRVLOCK | F::BRW_SIZE | F::CANCELSET | F::CKSUM;
    let both = both | F::VBR | F::HASH_64BIT | F::LAYOUTLOCK | F::LVB_TYPE | F::SHORTIO;
    let (flags, flags2, brw_size) = match kind {
        TargetKind::Mgs => return data,
        TargetKind::Mdt => {
            let names = F::IBITS | F::NODEVOH | F::LOV_V3 | F::MAX_EASIZE | F::DISP_STRIPE;
            let rights = F::ACL | F::LARGE_ACL | F::XATTR | F::UMASK;
            let others =
                F::FLOCK_DEAD | F::OPEN_BY_FID | F::MULTIMODRPCS | F::SUBTREE | F::DIR_STRIPE;
            let layouts = ConnectFlags2::OVERSTRIPING | ConnectFlags2::FLR | ConnectFlags2::LSOM;
            let locks = ConnectFlags2::LOCK_CONVERT | ConnectFlags2::DOM_LVB;
            let flags2 = layouts | locks | ConnectFlags2::SUM_STATFS | ConnectFlags2::ASYNC_DISCARD;
            let flags2 = flags2 | ConnectFlags2::DIR_MIGRATE | ConnectFlags2::CRUSH;
            let flags2 = flags2 | ConnectFlags2::BATCH_RPC;
            (names | rights | others, flags2, MDT_BRW_MAX)
        }
        TargetKind::Ost | TargetKind::Client => (F::MAXBYTES, ConnectFlags2::NONE, OST_BRW_MAX),
    };
    ConnectData {
        flags: ConnectFlags((data.flags | both | flags).0 & !F::LIGHTWEIGHT.0),
        flags2: data.flags2 | flags2 | ConnectFlags2::INC_XID | ConnectFlags2::LSEEK,
        grant: GRANT,
        brw_size,
        ibits_known: 0x7f,
        grant_block_bits: 12,
        checksums: ChecksumTypes(0xf7),
        ..data
    }
}
