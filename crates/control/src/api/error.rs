//! Why a node refused a request.

use fulmar_base::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::GlobalKey;

/// Why a node refused a request, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{descr}")]
pub struct AdminError {
    /// A negative error number.
    pub errno: i32,
    /// What failed, as Lustre's tools say it.
    pub descr: String,
    /// What to do.
    pub hint: Option<String>,
}

impl AdminError {
    /// Returns an error without a hint.
    pub fn new(errno: Errno, descr: impl Into<String>) -> Self {
        Self { errno: -errno.0, descr: descr.into(), hint: None }
    }

    /// Returns whether its number is that of `errno`.
    pub fn is(&self, errno: Errno) -> bool {
        self.errno == -errno.0
    }

    /// Adds what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error of a node that has failed.
    pub(super) fn failed(why: &str) -> Self {
        Self::new(Errno::EIO, format!("the node has failed: {why}")).with_hint(
            "its process is about to end; start it again, unless a service manager does, and report \
             the failure with the node's log",
        )
    }

    pub(super) fn unsupported(what: &str) -> Self {
        Self::new(Errno::EOPNOTSUPP, format!("{what} is not supported by this node yet"))
    }

    /// Returns the error of a refused global value, as Lustre's tools report it: most of them only know
    /// that a file of the kernel has refused it.
    pub fn global_set(key: GlobalKey, why: String) -> Self {
        let what = match key {
            GlobalKey::RouterSensitivity => "router health sensitivity".to_owned(),
            key => key.name().replace('_', " "),
        };
        let error = match key {
            GlobalKey::ResponseTracking => {
                Self::new(Errno::EINVAL, "Valid values are: 0, 1, 2, or 3")
            }
            GlobalKey::RecoveryLimit => {
                Self::new(Errno::EINVAL, "Must be greater than or equal to 0")
            }
            GlobalKey::MaxRecoveryPingInterval => {
                Self::new(Errno::EINVAL, "must be strictly positive")
            }
            _ => Self::new(UNWRITTEN, format!("cannot configure {what}: {}", Errno::EINVAL)),
        };
        error.with_hint(why)
    }

    /// Returns the error of removing a selection policy.
    pub fn udsp_del(errno: Errno) -> Self {
        Self::new(errno, format!("cannot del udsp: {errno}"))
            .with_hint("udsp show lists the rules of this node")
    }

    /// Returns the error of a node without a management service.
    pub fn no_mgs() -> Self {
        Self::new(Errno::ENODEV, "this node has no management service (MGS)")
            .with_hint("run the command on the node that serves the MGS")
    }

    /// Returns the error of a node without an MDT.
    pub fn no_mdt(mdt: &str) -> Self {
        Self::new(Errno::ENODEV, format!("this node does not serve {mdt}")).with_hint(
            "run the command on the node that serves the MDT, with its name: lustre-MDT0000",
        )
    }

    /// Returns the error of a node without the selftest role.
    pub fn no_selftest() -> Self {
        Self::new(Errno::EOPNOTSUPP, "this node has no selftest role").with_hint(
            "start it with \"fulmar node --role selftest\", or with roles: [selftest] in its file",
        )
    }
}

/// The number of Lustre's tools for a value that the kernel refused: exit status 195.
const UNWRITTEN: Errno = Errno::ENODATA;
