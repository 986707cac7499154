//! The changelogs of the MDTs that the node serves.

use std::time::{SystemTime, UNIX_EPOCH};

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, ChangelogDeregister, ChangelogRegister, ChangelogUser};
use fulmar_server::{ChangelogUserId, Changelogs};

use crate::admin::{Daemon, Result};

impl Daemon {
    /// Returns the changelogs, one of which is that of `mdt`.
    fn changelogs(&self, mdt: &str) -> Result<Changelogs> {
        let serving = self.hosting.serving();
        serving.map(|serving| serving.changelogs()).ok_or_else(|| AdminError::no_mdt(mdt))
    }

    pub(super) fn register_changelog_user(
        &self,
        request: &ChangelogRegister,
    ) -> Result<ChangelogUser> {
        let ChangelogRegister { device, user, mask } = request;
        let wanted = (user.as_deref(), mask.as_deref());
        let registered = self.changelogs(device)?.register(device, wanted, now());
        let id = registered.map_err(|errno| match errno {
            Errno::ENODEV => AdminError::no_mdt(device),
            Errno::EEXIST => AdminError::new(errno, "User exists"),
            errno => AdminError::new(errno, errno.to_string()),
        })?;
        tracing::info!("cl{id} follows the changelog of {device}");
        Ok(ChangelogUser { id })
    }

    pub(super) fn deregister_changelog_user(
        &self,
        request: &ChangelogDeregister,
    ) -> Result<ChangelogUser> {
        let ChangelogDeregister { device, id, user } = request;
        let who = match (id, user) {
            (Some(id), _) => ChangelogUserId::Number(*id),
            (None, Some(name)) => ChangelogUserId::Name(name.clone()),
            (None, None) => {
                return Err(AdminError::new(Errno::EINVAL, "name a user, or its number"));
            }
        };
        let deregistered = self.changelogs(device)?.deregister(device, &who);
        let id = deregistered.map_err(|errno| match errno {
            Errno::ENODEV => AdminError::no_mdt(device),
            Errno::ENOENT => AdminError::new(errno, "User not found"),
            errno => AdminError::new(errno, errno.to_string()),
        })?;
        tracing::info!("cl{id} no longer follows the changelog of {device}");
        Ok(ChangelogUser { id })
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
