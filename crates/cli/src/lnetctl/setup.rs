//! `lnetctl setup-mrrouting` and `setup-sysctl`, which run scripts of Lustre. Spec: lnet-admin §15.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_base::Errno;
use fulmar_control::api::AdminError;

use crate::context::{Context, Form, Status};

/// A script of Lustre.
struct Script {
    command: &'static str,
    file: &'static str,
    /// The variable with another path, whose last part must be the same.
    variable: &'static str,
    /// What to do without it.
    hint: &'static str,
}

const ROUTING: Script = Script {
    command: "setup-mrrouting",
    file: "ksocklnd-config",
    variable: "KSOCKLND_CONFIG",
    hint: "it is a part of Lustre; without it, give each interface a table of its own: ip route add NETWORK dev \
           IF table N, and ip rule add from ADDRESS table N",
};

const SYSCTL: Script = Script {
    command: "setup-sysctl",
    file: "lnet-sysctl-config",
    variable: "LNET_SYSCTL_CONFIG",
    hint: "it is a part of Lustre; without it, raise net.ipv4.neigh.default.gc_thresh1 to 3 above the number \
           of nodes",
};

pub(super) fn routing(context: &Context) -> Status {
    ROUTING.run(context)
}

pub(super) fn sysctl(context: &Context) -> Status {
    SYSCTL.run(context)
}

impl Script {
    fn run(&self, context: &Context) -> Status {
        let ran = Command::new(self.path(std::env::var_os(self.variable))).status();
        let (errno, why) = match ran {
            Ok(status) if status.success() => return 0,
            Ok(status) => (Errno::EIO, status.to_string()),
            Err(error) => {
                let errno = Errno(error.raw_os_error().unwrap_or(Errno::EIO.0));
                (errno, errno.to_string())
            }
        };
        let descr = format!("failed to execute {} : {why}", self.file);
        let error = AdminError::new(errno, descr).with_hint(self.hint);
        context.refuse(Form::Classic, "manage", self.command, &error)
    }

    /// Returns where it is, with the value of the variable.
    fn path(&self, other: Option<OsString>) -> PathBuf {
        let other = other.map(PathBuf::from);
        let named = other.filter(|path| path.file_name() == Some(self.file.as_ref()));
        named.unwrap_or_else(|| Path::new("/usr/sbin").join(self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_only_a_script_of_the_same_name() {
        let path = |other: Option<&str>| ROUTING.path(other.map(OsString::from));
        assert_eq!(path(None), Path::new("/usr/sbin/ksocklnd-config"));
        assert_eq!(path(Some("/opt/ksocklnd-config")), Path::new("/opt/ksocklnd-config"));
        assert_eq!(path(Some("/bin/rm")), Path::new("/usr/sbin/ksocklnd-config"));
    }
}
