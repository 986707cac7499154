//! The management service that the node serves.

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, MgsPool, MgsPools, MgsSet, PoolChange, Pools};
use fulmar_server::{Administration, TargetName};

use crate::admin::{Daemon, Result};

impl Daemon {
    /// Says that the node serves a management service.
    pub(crate) fn serve_mgs(&mut self, mgs: Option<Administration>) {
        self.mgs = mgs;
    }

    fn mgs(&self) -> Result<&Administration> {
        self.mgs.as_ref().ok_or_else(AdminError::no_mgs)
    }

    pub(super) fn set_parameter(&self, request: &MgsSet) -> Result<()> {
        let MgsSet { parameter, all, delete } = request;
        let mgs = self.mgs()?;
        let set = match all {
            true => mgs.set_parameter_of_all(parameter, *delete),
            false => mgs.set_parameter(parameter, *delete),
        };
        set.map_err(|errno| {
            let what = if *delete { "delete" } else { "set" };
            AdminError::new(errno, format!("cannot {what} {parameter}: {errno}"))
        })?;
        let what = if *delete { "deleted" } else { "set" };
        tracing::info!("the administrator has {what} the parameter {parameter}");
        Ok(())
    }

    pub(super) fn change_pool(&self, request: &MgsPool) -> Result<()> {
        let MgsPool { fsname, pool, change } = request;
        let name = |ost: &String| {
            let unknown = || AdminError::new(Errno::EINVAL, format!("{ost} is not an OST"));
            TargetName::parse(ost).ok_or_else(unknown)
        };
        let wanted = match change {
            PoolChange::New => fulmar_server::PoolChange::New,
            PoolChange::Add(ost) => fulmar_server::PoolChange::Add(name(ost)?),
            PoolChange::Remove(ost) => fulmar_server::PoolChange::Remove(name(ost)?),
            PoolChange::Destroy => fulmar_server::PoolChange::Destroy,
        };
        let changed = self.mgs()?.change_pool(fsname, pool, &wanted);
        changed.map_err(|errno| {
            AdminError::new(errno, format!("cannot change the pool {fsname}.{pool}: {errno}"))
        })?;
        tracing::info!("the administrator has changed the pool {fsname}.{pool}: {change:?}");
        Ok(())
    }

    pub(super) fn pools(&self, request: &MgsPools) -> Result<Pools> {
        let fsname = &request.fsname;
        let found = self.mgs()?.pools(fsname).map_err(|errno| {
            AdminError::new(errno, format!("the MGS has no file system {fsname}"))
        })?;
        let names = |osts: std::collections::BTreeSet<TargetName>| {
            osts.iter().map(TargetName::to_string).collect()
        };
        Ok(Pools { pools: found.into_iter().map(|(pool, osts)| (pool, names(osts))).collect() })
    }
}
