//! A file system that a command is about: one that is mounted here, by a path on the mount, or another one by its
//! address.
//!
//! On a mount, attributes of a file tell of the targets: the process that serves the mount asks them, since no two
//! nodes of a machine have the same address.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fulmar_base::Errno;
use fulmar_client::{Address, FsTarget, Members, QuotaOwner, QuotaQuestion, special};
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_lustre_wire::quota::QuotaLimits;
use fulmar_rpc::import::TargetKind;
use fulmar_wire::Order;

use super::place::{At, Place};
use super::{Mount, MountArgs, ReachArgs, fail};
use crate::context::Status;
use crate::mounts::mounts;

/// A file system, and how its servers are reached.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WholeArgs {
    /// A path on a mount, or NIDs of the MGS and name of the file system, as for mount: 10.0.0.1@tcp:/lustre;
    /// by default every mount of this machine
    #[arg(value_name = "PATH|MGS:/NAME")]
    place: Option<Place>,
    #[command(flatten)]
    reach: ReachArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A file system whose targets can be asked.
pub(super) struct Whole {
    /// What is printed as its place: where it is mounted, or its address.
    pub(super) place: String,
    /// Its targets; of a mount, with the management service.
    targets: Vec<FsTarget>,
    by: By,
}

enum By {
    Mount(At),
    Session(Box<Mount>, String),
}

/// A device, and whether its server answers.
pub(super) type TargetCheck = (String, Result<(), Errno>);

/// A kind of target, and what somebody uses on one of it.
pub(super) type TargetUsage = (TargetKind, Result<QuotaLimits, Errno>);

/// So many targets are asked at once.
const AT_ONCE: usize = 32;

impl WholeArgs {
    /// Returns the place as it was given.
    pub(super) fn given(&self) -> Option<String> {
        self.place.as_ref().map(|place| match place {
            Place::Mounted(path) => path.display().to_string(),
            Place::Remote(address) => address.to_string(),
        })
    }

    /// Reaches the file systems, or reports why that failed, for `command`.
    pub(super) fn reach(&self, command: &str) -> Result<Vec<Whole>, Status> {
        match &self.place {
            Some(Place::Remote(address)) => self.connect(command, address).map(|one| vec![one]),
            Some(Place::Mounted(path)) => {
                let whole = path
                    .canonicalize()
                    .map_err(|error| fail(command, &format!("{}: {error}", path.display())))?;
                let found = mounts().into_iter().filter(|mount| whole.starts_with(mount));
                let found = found.max_by_key(|mount| mount.as_os_str().len()).ok_or_else(|| {
                    let path = path.display();
                    fail(command, &format!("{path} is on no file system that is mounted by fulmar"))
                })?;
                Whole::mounted(command, found).map(|one| vec![one])
            }
            None => {
                let all: Vec<PathBuf> = mounts();
                if all.is_empty() {
                    let why =
                        "nothing is mounted by fulmar here: name a file system by its address";
                    return Err(fail(command, why));
                }
                all.into_iter().map(|mount| Whole::mounted(command, mount)).collect()
            }
        }
    }

    fn connect(&self, command: &str, address: &Address) -> Result<Whole, Status> {
        let args = MountArgs::new(address, &self.reach);
        let mount = args.mount(command)?;
        let targets = mount.file_system.targets().cloned().collect();
        let by = By::Session(Box::new(mount), args.mgs_device());
        Ok(Whole { place: address.to_string(), targets, by })
    }
}

impl Whole {
    fn mounted(command: &str, directory: PathBuf) -> Result<Self, Status> {
        let place = directory.display().to_string();
        let at = At::mounted(directory);
        let targets = at
            .attribute(at.path(), special::TARGETS)
            .and_then(|value| special::read_targets(&value))
            .map_err(|errno| fail(command, &format!("{place}: {errno}")))?;
        Ok(Self { place, targets, by: By::Mount(at) })
    }

    /// Returns the targets of a kind, by index.
    pub(super) fn targets(&self, kind: TargetKind) -> Vec<FsTarget> {
        self.targets.iter().filter(|target| target.kind == kind).cloned().collect()
    }

    /// Returns the size and the use of those targets that are wanted, metadata first.
    pub(super) fn statfs(
        &mut self,
        is_wanted: impl Fn(&FsTarget) -> bool,
    ) -> Vec<(FsTarget, Result<Statfs, Errno>)> {
        let wanted = |target: &&FsTarget| target.kind != TargetKind::Mgs && is_wanted(target);
        let wanted: Vec<FsTarget> = self.targets.iter().filter(wanted).cloned().collect();
        let answers = match &mut self.by {
            By::Mount(at) => {
                let decode = |bytes: Vec<u8>| {
                    Statfs::decode(&bytes, Order::Little).map_err(|_| Errno::EPROTO)
                };
                let answers = ask(at, special::STATFS, &wanted);
                answers.into_iter().map(|answer| answer.and_then(decode)).collect()
            }
            By::Session(mount, _) => {
                let members = mount.session.connect_targets(&wanted);
                members.statfs(&mount.session)
            }
        };
        wanted.into_iter().zip(answers).collect()
    }

    /// Returns the limits of an owner, and what it uses on each target.
    pub(super) fn quota(
        &mut self,
        owner: QuotaOwner,
    ) -> (Result<QuotaLimits, Errno>, Vec<TargetUsage>) {
        let [mdts, osts] = [TargetKind::Mdt, TargetKind::Ost].map(|kind| self.targets(kind));
        let first: Vec<FsTarget> = mdts.iter().take(1).cloned().collect();
        let all = [mdts, osts].concat();
        let (mut limits, used) = match &mut self.by {
            By::Mount(at) => {
                let get = |question: &[u8], targets: &[FsTarget]| -> Vec<_> {
                    let question = [question, format!("{owner}.").as_bytes()].concat();
                    let decode = |bytes: Vec<u8>| {
                        QuotaLimits::decode(&bytes, Order::Little).map_err(|_| Errno::EPROTO)
                    };
                    let answers = ask(at, &question, targets);
                    answers.into_iter().map(|answer| answer.and_then(decode)).collect()
                };
                (get(special::QUOTA_LIMITS, &first), get(special::QUOTA_USED, &all))
            }
            By::Session(mount, _) => {
                let members = mount.session.connect_targets(&all);
                let used = members.quota(&mount.session, owner, QuotaQuestion::Used);
                let first = Members(members.0.into_iter().take(first.len()).collect());
                (first.quota(&mount.session, owner, QuotaQuestion::Limits), used)
            }
        };
        let limits = limits.pop().unwrap_or(Err(Errno::ENODEV));
        (limits, all.iter().map(|target| target.kind).zip(used).collect())
    }

    /// Returns whether those targets answer whose kind is wanted: OSTs, MDTs and the management service.
    pub(super) fn ping(&mut self, is_wanted: impl Fn(TargetKind) -> bool) -> Vec<TargetCheck> {
        let of = |kind| if is_wanted(kind) { self.targets(kind) } else { Vec::new() };
        let mut wanted = [of(TargetKind::Ost), of(TargetKind::Mdt)].concat();
        match &mut self.by {
            By::Mount(at) => {
                let mgs = self.targets.iter().filter(|one| one.kind == TargetKind::Mgs);
                wanted.extend(mgs.filter(|one| is_wanted(one.kind)).cloned());
                let answers = ask(at, special::PING, &wanted);
                let answers = answers.into_iter().map(|answer| answer.map(drop));
                wanted.into_iter().map(|target| target.device).zip(answers).collect()
            }
            By::Session(mount, mgs) => {
                let members = mount.session.connect_targets(&wanted);
                let answers = members.ping(&mount.session);
                let devices = wanted.iter().map(|target| mount.session.device_of(target));
                let mut checked: Vec<TargetCheck> = devices.zip(answers).collect();
                if is_wanted(TargetKind::Mgs) {
                    checked.push((mgs.clone(), mount.session.ping(mount.mgs)));
                }
                checked
            }
        }
    }
}

/// Asks targets by attributes of a file of the mount, many at once.
fn ask(at: &At, question: &[u8], targets: &[FsTarget]) -> Vec<Result<Vec<u8>, Errno>> {
    let path: &Path = at.path();
    let (next, answers) = (Mutex::new(0..targets.len()), Mutex::new(BTreeMap::new()));
    let take = || next.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..targets.len().min(AT_ONCE) {
            scope.spawn(|| {
                while let Some(number) = take() {
                    let target = &targets[number];
                    let name = [question, target.place().as_bytes()].concat();
                    let answer = if target.is_active {
                        at.attribute(path, &name)
                    } else {
                        Err(Errno::ENODATA)
                    };
                    if let Ok(mut answers) = answers.lock() {
                        answers.insert(number, answer);
                    }
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_default();
    (0..targets.len()).map(|number| answers.remove(&number).unwrap_or(Err(Errno::EIO))).collect()
}
