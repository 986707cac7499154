//! What an administrator changes at the MDTs of a node: who follows their changelogs.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_mdt::{ChangelogUserId, Mdt};
use fulmar_text::pattern::selects;

use crate::parameters::{NamedValue, Unset};
use crate::roster::{Roster, Service};

/// The MDTs of a node for its administrator. When they end there are none.
#[derive(Clone)]
pub struct Changelogs(Arc<Roster>);

impl Changelogs {
    pub(crate) fn new(roster: Arc<Roster>) -> Self {
        Self(roster)
    }

    /// Registers a user of the changelog of an MDT, such as `lv-MDT0000`, and returns its number.
    ///
    /// # Errors
    /// ENODEV if the node has no such MDT, and as [`Mdt::register_changelog_user`].
    pub fn register(
        &self,
        mdt: &str,
        (user, mask): (Option<&str>, Option<&str>),
        now: i64,
    ) -> Result<u32, Errno> {
        let registered = self.mdt(mdt)?.register_changelog_user(user, mask, now);
        registered.map_err(|failure| failure.errno())
    }

    /// Forgets a user of the changelog of an MDT, and returns its number.
    ///
    /// # Errors
    /// ENODEV if the node has no such MDT, and as [`Mdt::deregister_changelog_user`].
    pub fn deregister(&self, mdt: &str, user: &ChangelogUserId) -> Result<u32, Errno> {
        self.mdt(mdt)?.deregister_changelog_user(user).map_err(|failure| failure.errno())
    }

    /// Returns the parameters of the MDTs, as [`Parameters::all`](crate::Parameters::all) does.
    pub(crate) fn parameters(&self, now: i64) -> Vec<NamedValue> {
        self.mdts().iter().flat_map(|(name, mdt)| parameters_of(name, mdt, now)).collect()
    }

    /// Sets the parameters of an MDT that a pattern selects, and returns their names.
    pub(crate) fn set(&self, mdt: &str, pattern: &str, value: &str) -> Result<Vec<String>, Unset> {
        // An MDT that has ended has no parameters.
        let Ok(found) = self.mdt(mdt) else { return Ok(Vec::new()) };
        let mut set = Vec::new();
        for (parts, _) in parameters_of(mdt, &found, 0) {
            if !selects(pattern, &parts) {
                continue;
            }
            let name = parts.join(".");
            let changed = found.set_changelog_parameter(&parts[2], value);
            match changed.map_err(|failure| failure.errno()) {
                Ok(()) => set.push(name),
                Err(Errno::EACCES) => return Err(Unset::ReadOnly(name)),
                Err(errno) => return Err(Unset::Invalid { name, why: errno.to_string() }),
            }
        }
        Ok(set)
    }

    fn mdt(&self, name: &str) -> Result<Arc<Mdt>, Errno> {
        let found = self.mdts().into_iter().find(|(of, _)| of == name);
        found.map(|(_, mdt)| mdt).ok_or(Errno::ENODEV)
    }

    fn mdts(&self) -> Vec<(String, Arc<Mdt>)> {
        let served = self.0.served().into_iter();
        let mdts = served.filter_map(|(_, listed)| match listed.service {
            Service::Mdt(mdt) => Some((listed.device.name, mdt.upgrade()?)),
            _ => None,
        });
        mdts.collect()
    }
}

/// Returns the parameters of an MDT, with their names in three parts.
fn parameters_of(name: &str, mdt: &Mdt, now: i64) -> Vec<NamedValue> {
    let named = |file: &str| ["mdd", name, file].map(str::to_owned).to_vec();
    let parameters = mdt.changelog_parameters(now).into_iter();
    parameters.map(|(file, text)| (named(file), text)).collect()
}
