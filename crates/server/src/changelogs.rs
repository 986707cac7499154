//! What an administrator changes at the MDTs of a node: who follows their changelogs.

use std::sync::{Arc, Weak};

use fulmar_base::Errno;
use fulmar_mdt::{ChangelogUserId, Mdt};

/// The MDTs of a node for its administrator. When they end there are none.
#[derive(Clone, Default)]
pub struct Changelogs {
    mdts: Vec<(String, Weak<Mdt>)>,
}

impl Changelogs {
    /// `mdts`: each with its name.
    pub(crate) fn new(mdts: impl IntoIterator<Item = (String, Arc<Mdt>)>) -> Self {
        let mdts = mdts.into_iter().map(|(name, mdt)| (name, Arc::downgrade(&mdt)));
        Self { mdts: mdts.collect() }
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
    pub(crate) fn parameters(&self, now: i64) -> Vec<(Vec<String>, String)> {
        let mut all = Vec::new();
        for (name, mdt) in &self.mdts {
            let Some(mdt) = mdt.upgrade() else { continue };
            let named = |file: &str| ["mdd", name, file].map(str::to_owned).to_vec();
            let parameters = mdt.changelog_parameters(now).into_iter();
            all.extend(parameters.map(|(file, text)| (named(file), text)));
        }
        all
    }

    /// Sets a parameter of an MDT by its name.
    pub(crate) fn set(&self, name: &[String], value: &str) -> Result<(), Errno> {
        match name {
            [kind, mdt, file] if kind == "mdd" => {
                let set = self.mdt(mdt)?.set_changelog_parameter(file, value);
                set.map_err(|failure| failure.errno())
            }
            _ => Err(Errno::EACCES),
        }
    }

    fn mdt(&self, name: &str) -> Result<Arc<Mdt>, Errno> {
        let found = self.mdts.iter().find(|(of, _)| of == name);
        found.and_then(|(_, mdt)| mdt.upgrade()).ok_or(Errno::ENODEV)
    }
}
