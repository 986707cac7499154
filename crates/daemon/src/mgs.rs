//! The management service that the node serves.

use fulmar_base::Errno;
use fulmar_control::api::{
    AdminError, MgsNodemap, MgsNodemapTest, MgsPool, MgsPools, MgsSet, NodemapChange,
    NodemapTested, PoolChange, Pools,
};
use fulmar_control::show;
use fulmar_server::{Administration, IdKind, TargetName};

use crate::admin::{Daemon, Result};

impl Daemon {
    fn mgs(&self) -> Result<Administration> {
        let serving = self.hosting.serving();
        serving.and_then(|serving| serving.administration()).ok_or_else(AdminError::no_mgs)
    }

    pub(super) fn set_parameter(&self, request: &MgsSet) -> Result<()> {
        let MgsSet { parameter, all, delete } = request;
        let mgs = self.mgs()?;
        let set = if *all {
            mgs.set_parameter_of_all(parameter, *delete)
        } else {
            mgs.set_parameter(parameter, *delete)
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

    pub(super) fn change_nodemap(&self, request: &MgsNodemap) -> Result<()> {
        let MgsNodemap { name, change } = request;
        let mgs = self.mgs()?;
        let changed = match wanted(change)? {
            None => mgs.activate_nodemaps(*change == NodemapChange::Activate(true)),
            Some(wanted) => mgs.change_nodemap(name, &wanted),
        };
        changed.map_err(|errno| {
            let why = why_not(errno, change).map_or(errno.to_string(), str::to_owned);
            AdminError::new(errno, format!("cannot change the nodemap {name}: {why}"))
        })?;
        tracing::info!("the administrator has changed the nodemaps: {name} {change:?}");
        Ok(())
    }

    pub(super) fn test_nodemap(&self, request: &MgsNodemapTest) -> Result<NodemapTested> {
        let ended = |errno| AdminError::new(errno, "the management service has ended");
        let nodemaps = self.mgs()?.nodemaps().map_err(ended)?;
        let nodemap = nodemaps.of_nid(request.nid);
        let id = match &request.id {
            None => None,
            Some((kind, id)) => Some(nodemap.to_fs(id_kind(kind)?, *id).id),
        };
        Ok(NodemapTested { name: nodemap.name().to_owned(), id })
    }

    /// Returns the nodemaps as parameters, if the node serves them.
    pub(super) fn nodemap_files(&self) -> Vec<show::Parameter> {
        let nodemaps = self.mgs().ok().and_then(|mgs| mgs.nodemaps().ok());
        let files = nodemaps.map(|nodemaps| nodemaps.files()).unwrap_or_default();
        let named = |(name, value): (Vec<String>, String)| show::Parameter {
            name: std::iter::once("nodemap".to_owned()).chain(name).collect(),
            value,
        };
        files.into_iter().map(named).collect()
    }
}

/// Reads a change of a nodemap; `None`: it is one of all.
fn wanted(change: &NodemapChange) -> Result<Option<fulmar_server::NodemapChange>> {
    use fulmar_server::{NodemapChange as Wanted, Property};
    let wrong = |why: fulmar_server::NotUnderstood| AdminError::new(Errno::EINVAL, why.0);
    Ok(Some(match change {
        NodemapChange::Activate(_) => return Ok(None),
        NodemapChange::Add => Wanted::Add,
        NodemapChange::Del => Wanted::Remove,
        NodemapChange::AddRange(text) => Wanted::AddNids(Wanted::nids(text).map_err(wrong)?),
        NodemapChange::DelRange(text) => Wanted::RemoveNids(Wanted::nids(text).map_err(wrong)?),
        NodemapChange::Modify(name, value) => {
            Wanted::Set(Property::parse(name, value).map_err(wrong)?)
        }
        NodemapChange::AddIdmap(kind, text) => {
            let (client, fs, count) = Wanted::ids(text).map_err(wrong)?;
            Wanted::AddIds(id_kind(kind)?, client, fs, count)
        }
        NodemapChange::DelIdmap(kind, text) => {
            let (client, fs, count) = Wanted::ids(text).map_err(wrong)?;
            Wanted::RemoveIds(id_kind(kind)?, client, fs, count)
        }
        NodemapChange::AddOffset(start, limit) => Wanted::AddOffset(*start, *limit),
        NodemapChange::DelOffset => Wanted::RemoveOffset,
        NodemapChange::SetFileset(path) => {
            Wanted::SetFileset(Some(path.clone()).filter(|path| !path.is_empty()))
        }
    }))
}

fn id_kind(name: &str) -> Result<IdKind> {
    let unknown = || AdminError::new(Errno::EINVAL, format!("{name:?} is not uid, gid or projid"));
    IdKind::of_name(name).ok_or_else(unknown)
}

/// Says more of a refusal than its number.
fn why_not(errno: Errno, change: &NodemapChange) -> Option<&'static str> {
    Some(match (errno, change) {
        (Errno::ENOENT, _) => "there is none of this name",
        (Errno::EEXIST, NodemapChange::Add) => "there is one of this name",
        (Errno::EEXIST, _) => "some of these NIDs are in a nodemap",
        (Errno::ENAMETOOLONG, NodemapChange::Add) => "a name has at most 16 characters",
        (Errno::EINVAL, NodemapChange::Add) => "a name has letters, digits and _",
        (Errno::EINVAL, NodemapChange::SetFileset(_)) => "a fileset begins with /",
        (Errno::EINVAL, NodemapChange::DelRange(_) | NodemapChange::DelIdmap(..)) => {
            "it does not have them, or is the default one"
        }
        (Errno::EINVAL, _) => "this is not possible, or not for the default one",
        (Errno::ERANGE, _) => "it has an offset, or the new one overlaps that of another nodemap",
        _ => return None,
    })
}
