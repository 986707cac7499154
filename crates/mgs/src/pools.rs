//! Pools of OSTs, in the logs of clients and MDTs. Spec: ptlrpc-ldlm-mgs §30, §31.1.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Errno;
use fulmar_lustre_wire::llog::config::{Config, Pool};
use fulmar_rpc::import::TargetKind;

use crate::records::Group;
use crate::register::ConfigurationChange;
use crate::service::Mgs;
use crate::target::TargetName;

/// The pools of a file system, each with its OSTs.
pub type Pools = BTreeMap<String, BTreeSet<TargetName>>;

/// A change of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolChange {
    /// It is made, without OSTs.
    New,
    /// It gets an OST.
    Add(TargetName),
    /// It loses an OST.
    Remove(TargetName),
    /// It goes. It has no OSTs any more.
    Destroy,
}

/// There is no such pool.
const ENOMEDIUM: Errno = Errno(123);
/// The longest name of a pool.
const NAME_MAX: usize = 15;
/// Names that mean something else where a pool is given.
const RESERVED: [&str; 3] = ["none", "inherit", "ignore"];

impl Mgs {
    /// Changes a pool of a file system. `now`: seconds since 1970.
    ///
    /// # Errors
    /// EINVAL if there is no such file system, the pool cannot have this name, or the target is no OST of the
    /// file system; ENAMETOOLONG; EEXIST if there is such a pool, or the OST is in it; ENODEV if there is no such
    /// OST, ENOMEDIUM if there is no such pool for it; ENOENT if the pool or the OST is not there to go,
    /// ENOTEMPTY if the pool has OSTs. This value is of no use then: work on a clone.
    pub fn change_pool(
        &mut self,
        now: i64,
        file_system: &str,
        pool: &str,
        change: &PoolChange,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let pools = self.pools(file_system).ok_or(Errno::EINVAL)?;
        check_name(pool)?;
        let known = pools.get(pool);
        match change {
            PoolChange::New if known.is_some() => return Err(Errno::EEXIST),
            PoolChange::New => {}
            PoolChange::Add(ost) => {
                self.check_member(file_system, ost)?;
                if known.ok_or(ENOMEDIUM)?.contains(ost) {
                    return Err(Errno::EEXIST);
                }
            }
            PoolChange::Remove(ost) => {
                self.check_member(file_system, ost)?;
                known.filter(|osts| osts.contains(ost)).ok_or(Errno::ENOENT)?;
            }
            PoolChange::Destroy if !known.ok_or(Errno::ENOENT)?.is_empty() => {
                return Err(Errno::ENOTEMPTY);
            }
            PoolChange::Destroy => {}
        }
        let client = (format!("{file_system}-client"), format!("{file_system}-clilov"));
        let mdts = self.mdts_of(file_system).into_iter();
        let mdts = mdts.map(|mdt| (mdt.to_string(), format!("{mdt}-mdtlov")));
        for (log_name, device) in std::iter::once(client).chain(mdts) {
            let (comment, cancelled, record) = change.record(&device, file_system, pool);
            if let (Some(cancelled), Some(log)) = (cancelled, self.log_mut(&log_name)) {
                log.cancel(&device, &cancelled, now);
            }
            self.append(&log_name, &Group::new(&device, &comment, vec![record]), now)?;
        }
        Ok(vec![ConfigurationChange::Configuration(file_system.to_owned())])
    }

    /// Returns the pools of a file system, `None` if there is no such file system.
    pub fn pools(&self, file_system: &str) -> Option<Pools> {
        let log = self.log_named(&format!("{file_system}-client"))?;
        let device = format!("{file_system}-clilov");
        let mut pools = Pools::new();
        let groups = log.live_groups().into_iter().filter(|group| group.target == device);
        for record in groups.flat_map(|group| group.records) {
            let ost = |pool: &Pool| TargetName::parse(pool.ost.as_ref()?.strip_suffix("_UUID")?);
            match record {
                Config::NewPool(pool) => drop(pools.entry(pool.pool).or_default()),
                Config::AddToPool(pool) => {
                    let ost = ost(&pool);
                    pools.entry(pool.pool).or_default().extend(ost);
                }
                Config::RemoveFromPool(pool) => {
                    if let (Some(osts), Some(ost)) = (pools.get_mut(&pool.pool), ost(&pool)) {
                        osts.remove(&ost);
                    }
                }
                Config::DestroyPool(pool) => drop(pools.remove(&pool.pool)),
                _ => {}
            }
        }
        Some(pools)
    }

    fn check_member(&self, file_system: &str, ost: &TargetName) -> Result<(), Errno> {
        if ost.file_system != file_system || ost.kind != TargetKind::Ost {
            return Err(Errno::EINVAL);
        }
        self.target(ost).map(drop).ok_or(Errno::ENODEV)
    }
}

impl PoolChange {
    /// Returns what the change is called, which earlier one it cancels, and its record for a device.
    fn record(&self, device: &str, fs: &str, name: &str) -> (String, Option<String>, Config) {
        let pool = |ost: Option<&TargetName>| Pool {
            device: device.to_owned(),
            file_system: fs.to_owned(),
            pool: name.to_owned(),
            ost: ost.map(|ost| format!("{ost}_UUID")),
        };
        match self {
            Self::New => (format!("new {fs}.{name}"), None, Config::NewPool(pool(None))),
            Self::Add(ost) => {
                (format!("add {fs}.{name}.{ost}_UUID"), None, Config::AddToPool(pool(Some(ost))))
            }
            Self::Remove(ost) => {
                let member = format!("{fs}.{name}.{ost}_UUID");
                let record = Config::RemoveFromPool(pool(Some(ost)));
                (format!("rem {member}"), Some(format!("add {member}")), record)
            }
            Self::Destroy => {
                let (comment, cancelled) = (format!("del {fs}.{name}"), format!("new {fs}.{name}"));
                (comment, Some(cancelled), Config::DestroyPool(pool(None)))
            }
        }
    }
}

fn check_name(pool: &str) -> Result<(), Errno> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match pool.len() {
        0 => Err(Errno::EINVAL),
        len if len > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ if !pool.chars().all(is_good) || RESERVED.contains(&pool) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}
