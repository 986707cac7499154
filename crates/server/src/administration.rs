//! What an administrator changes at the management service of a node.

use std::sync::Weak;

use fulmar_base::Errno;
use fulmar_mgs::{ConfigurationChange, Mgs, PoolChange, Pools};
use fulmar_net::Buffer;
use fulmar_nodemap::{Change, Nodemaps};
use fulmar_rpc::export::TargetId;

use crate::mgs::{MgsTarget, call_back};
use crate::run::Starter;
use crate::target::Operation;

/// The management service of a node for its administrator. When the service ends there is none.
///
/// A change is on disk when its method returns, and everybody who has read what it changes is called
/// back.
pub struct Administration {
    mgs: Weak<MgsTarget<Buffer>>,
    target: TargetId,
    starter: Starter,
}

impl Administration {
    pub(crate) fn new(mgs: Weak<MgsTarget<Buffer>>, target: TargetId, starter: Starter) -> Self {
        Self { mgs, target, starter }
    }

    /// Sets a parameter of a target or a file system, or deletes it.
    ///
    /// # Errors
    /// As [`Mgs::set_parameter`]; EIO or ENOSPC if it cannot be stored, ENODEV if the service has ended.
    pub fn set_parameter(&self, text: &str, deletes: bool) -> Result<(), Errno> {
        self.change(|mgs, now| mgs.set_parameter(now, text, deletes))
    }

    /// Sets a parameter of all nodes that it fits, or deletes it.
    ///
    /// # Errors
    /// As [`Mgs::set_parameter_of_all`], and as [`Administration::set_parameter`].
    pub fn set_parameter_of_all(&self, text: &str, deletes: bool) -> Result<(), Errno> {
        self.change(|mgs, now| mgs.set_parameter_of_all(now, text, deletes))
    }

    /// Changes a pool.
    ///
    /// # Errors
    /// As [`Mgs::change_pool`], and as [`Administration::set_parameter`].
    pub fn change_pool(&self, fs: &str, pool: &str, change: &PoolChange) -> Result<(), Errno> {
        self.change(|mgs, now| mgs.change_pool(now, fs, pool, change))
    }

    /// Returns the pools of a file system.
    ///
    /// # Errors
    /// ENOENT if there is no such file system, ENODEV if the service has ended.
    pub fn pools(&self, file_system: &str) -> Result<Pools, Errno> {
        let mgs = self.mgs.upgrade().ok_or(Errno::ENODEV)?;
        mgs.read(|mgs| mgs.pools(file_system)).ok_or(Errno::ENOENT)
    }

    /// Uses the nodemaps, or not.
    ///
    /// # Errors
    /// As [`Administration::set_parameter`].
    pub fn activate_nodemaps(&self, is_active: bool) -> Result<(), Errno> {
        self.change(|mgs, _| Ok(mgs.activate_nodemaps(is_active)))
    }

    /// Changes the nodemap of a name.
    ///
    /// # Errors
    /// As [`Nodemaps::change`], and as [`Administration::set_parameter`].
    pub fn change_nodemap(&self, name: &str, change: &Change) -> Result<(), Errno> {
        self.change(|mgs, _| mgs.change_nodemap(name, change))
    }

    /// Returns the nodemaps.
    ///
    /// # Errors
    /// ENODEV if the service has ended.
    pub fn nodemaps(&self) -> Result<Nodemaps, Errno> {
        let mgs = self.mgs.upgrade().ok_or(Errno::ENODEV)?;
        Ok(mgs.read(|mgs| mgs.nodemaps().clone()))
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Mgs, i64) -> Result<Vec<ConfigurationChange>, Errno>,
    ) -> Result<(), Errno> {
        let mgs = self.mgs.upgrade().ok_or(Errno::ENODEV)?;
        for changed in mgs.change(change)? {
            let call_back = |context| -> Operation<()> { Box::pin(call_back(context, changed)) };
            self.starter.begin(self.target, call_back);
        }
        Ok(())
    }
}
