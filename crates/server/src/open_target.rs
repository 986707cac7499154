//! A target whose directory has been opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fulmar_client::Setting;
use fulmar_ldlm::server::Config as LockConfig;
use fulmar_lustre_wire::{Opcode, Uuid};
use fulmar_mdt::Mdt;
use fulmar_mgs::Mgs;
use fulmar_net::{Buffer, wall_clock};
use fulmar_ost::{Ost, Settings};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{KnownClient, TargetConfig};
use fulmar_store::{Store, StoreError};
use thiserror::Error;

use crate::groups::SystemGroups;
use crate::join::Member;
use crate::mdt::MdtTarget;
use crate::memory::Memories;
use crate::mgs::{MgsError, MgsTarget};
use crate::nodemaps;
use crate::ost::OstTarget;
use crate::osts::Osts;
use crate::placement::Placement;
use crate::roster;
use crate::settings;
use crate::storage::{self, Label, StorageError, TargetLabel};
use crate::target::TargetsConfig;

/// Why a target is not served from its directory.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    /// The directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The configurations cannot be used.
    #[error(transparent)]
    Mgs(#[from] MgsError),
    /// Another directory is for the same target.
    #[error("it is that of a second {what}, and a node has one. Serve one of both directories")]
    Twice {
        /// Its name.
        what: String,
    },
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error.into())
    }
}

/// A target that was opened. Everything that its start reads was read.
pub(crate) struct OpenTarget {
    pub(crate) directory: PathBuf,
    pub(crate) label: Label,
    pub(crate) store: Arc<Store>,
    pub(crate) service: Service,
    pub(crate) settings: Vec<Setting>,
    pub(crate) placement: Placement,
}

/// The target itself.
pub(crate) enum Service {
    Mgs(Arc<MgsTarget<Buffer>>),
    Member(Member),
}

impl OpenTarget {
    /// Opens the target in a directory.
    pub(crate) fn open(
        directory: &Path,
        others: &[String],
        memories: &Arc<Memories<Buffer>>,
    ) -> Result<Self, OpenError> {
        let (label, store) = storage::open(directory)?;
        let what = label.to_string();
        if others.contains(&what) {
            return Err(OpenError::Twice { what });
        }
        let service = match &label {
            Label::Mgs => Service::Mgs(MgsTarget::open(store.clone(), memories.clone(), seconds)?),
            Label::Target(label) => {
                let member = member(label, &store)?;
                nodemaps::restore(&store, &member)?;
                Service::Member(member)
            }
        };
        let (settings, placement) = (settings::load(&store)?, Placement::load(&store)?);
        let directory = directory.to_owned();
        Ok(Self { directory, label, store, service, settings, placement })
    }

    /// Returns what clients know of it.
    pub(crate) fn config(&self) -> TargetConfig {
        let uuid = |text: &str| Uuid::new(text).expect("names are short");
        let kind = self.kind();
        let operations = operations_of(kind);
        let (name, id) = (self.label.to_string(), self.label.uuid());
        TargetConfig { kind, name: uuid(&name), uuid: uuid(&id), operations }
    }

    /// Returns it as a part of the machine. `key`: see [`TargetsConfig::key`].
    pub(crate) fn part(&self, memories: &Arc<Memories<Buffer>>, key: u128) -> TargetsConfig {
        let (store, memories) = (self.store.clone(), memories.clone());
        let (kind, name) = (self.kind(), self.label.to_string());
        match &self.service {
            Service::Mgs(mgs) => {
                TargetsConfig { name, target: mgs.clone(), kind, locks: LockConfig::mgs(), key }
            }
            Service::Member(Member::Mdt(mdt, osts)) => {
                let parts = (mdt.clone(), osts.clone(), store);
                let target = MdtTarget::new(parts, memories, now);
                TargetsConfig { name, target, kind, locks: LockConfig::mdt(), key }
            }
            Service::Member(Member::Ost(ost)) => {
                let target = OstTarget::new(ost.clone(), store, memories, now);
                TargetsConfig { name, target, kind, locks: LockConfig::ost(), key }
            }
        }
    }

    /// Returns it for those who do not keep it from its end.
    pub(crate) fn weak(&self) -> roster::Service {
        match &self.service {
            Service::Mgs(mgs) => roster::Service::Mgs(Arc::downgrade(mgs)),
            Service::Member(Member::Mdt(mdt, _)) => roster::Service::Mdt(Arc::downgrade(mdt)),
            Service::Member(Member::Ost(ost)) => roster::Service::Ost(Arc::downgrade(ost)),
        }
    }

    pub(crate) fn member(&self) -> Option<&Member> {
        match &self.service {
            Service::Mgs(_) => None,
            Service::Member(member) => Some(member),
        }
    }

    /// Returns the clients that are known from its disk.
    pub(crate) fn known_clients(&self) -> &[KnownClient] {
        match self.member() {
            Some(Member::Mdt(mdt, _)) => mdt.known_clients(),
            Some(Member::Ost(ost)) => ost.known_clients(),
            None => &[],
        }
    }

    pub(crate) fn kind(&self) -> TargetKind {
        match &self.label {
            Label::Mgs => TargetKind::Mgs,
            Label::Target(label) => label.kind,
        }
    }
}

/// Starts the MDT or the OST of a store.
fn member(label: &TargetLabel, store: &Arc<Store>) -> Result<Member, OpenError> {
    if label.kind == TargetKind::Mdt {
        let key = random().map_err(OpenError::Random)?;
        let random = [key as u64, (key >> 64) as u64];
        let settings = fulmar_mdt::Settings { index: label.index, random, ..Default::default() };
        let osts = Osts::load(store, seconds())?;
        let mdt = Mdt::start(store.clone(), settings, osts.clone(), seconds())?;
        mdt.set_groups(Arc::new(SystemGroups::new()));
        return Ok(Member::Mdt(Arc::new(mdt), osts));
    }
    let settings = Settings { index: label.index, ..Settings::default() };
    Ok(Member::Ost(Arc::new(Ost::start(store.clone(), settings)?)))
}

/// Returns the operations of a target with those of its locks. They are those of the process.
pub fn with_locks(own: &[Opcode]) -> &'static [Opcode] {
    let locks = [Opcode::LDLM_ENQUEUE, Opcode::LDLM_CONVERT, Opcode::LDLM_CANCEL];
    Vec::leak([own, &locks].concat())
}

/// Returns the operations of a kind of target, which are made once, however often one is started.
fn operations_of(kind: TargetKind) -> &'static [Opcode] {
    static MGS: LazyLock<&[Opcode]> = LazyLock::new(|| with_locks(Mgs::OPERATIONS));
    static MDT: LazyLock<&[Opcode]> = LazyLock::new(|| with_locks(Mdt::OPERATIONS));
    static OST: LazyLock<&[Opcode]> = LazyLock::new(|| with_locks(Ost::OPERATIONS));
    match kind {
        TargetKind::Mdt => *MDT,
        TargetKind::Ost => *OST,
        _ => *MGS,
    }
}

/// Returns a number that cannot be guessed: the key of the handles that clients get.
pub(crate) fn random() -> std::io::Result<u128> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
}

/// Returns the time since 1970.
fn now() -> Duration {
    Duration::from_nanos(wall_clock())
}

/// Returns the seconds since 1970.
fn seconds() -> i64 {
    i64::try_from(wall_clock() / 1_000_000_000).unwrap_or(i64::MAX)
}
