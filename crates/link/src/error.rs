//! Errors of a link.

use std::io;
use std::path::PathBuf;

use crate::units::UnitError;

/// Why a link cannot be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LinkError {
    #[error("{0}")]
    Value(#[from] UnitError),
    #[error("{direction}: {error}")]
    Line { direction: &'static str, error: UnitError },
    #[error(
        "there is no network namespace {name} ({error}); create it with 'ip netns add {name}', or \
         use 'fulmar link sites', which creates two"
    )]
    NoNamespace { name: String, error: io::Error },
    #[error("cannot enter the network namespace {name}: {error}; a link needs root")]
    Enter { name: String, error: io::Error },
    #[error("cannot create the device {device} in {namespace}: {error}{}", hint(.error))]
    Device { device: String, namespace: String, error: io::Error },
    #[error("cannot set {setting} to {value:?} in {namespace}: {error}{}", allowed(.setting, .value, .error))]
    Setting { setting: String, value: String, namespace: String, error: io::Error },
    #[error("{0}")]
    Command(String),
    #[error("{name:?} is taken by another run of 'fulmar link sites': choose another --name")]
    NameTaken { name: String },
    #[error("cannot lock {}: {error}; sites need root", .file.display())]
    Lock { file: PathBuf, error: io::Error },
    #[error("{what}: {error}")]
    System { what: &'static str, error: io::Error },
}

/// Returns what to do about a device that cannot be created.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ResourceBusy => "; the name is in use: choose another",
        io::ErrorKind::PermissionDenied => "; a link needs root (CAP_NET_ADMIN)",
        io::ErrorKind::NotFound => "; this kernel has no TUN devices: try 'modprobe tun'",
        _ => "",
    }
}

/// Returns how to get a congestion control.
fn allowed(setting: &str, value: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if setting.ends_with("tcp_congestion_control") => format!(
            "; net.ipv4.tcp_available_congestion_control lists those of this kernel: try \
             'modprobe tcp_{value}'"
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_refused_setting_says_what_to_do() {
        let error = |value: &str, kind: io::ErrorKind| {
            let error = io::Error::from(kind);
            let setting = "net.ipv4.tcp_congestion_control".to_owned();
            let (value, namespace) = (value.to_owned(), "a".to_owned());
            LinkError::Setting { setting, value, namespace, error }.to_string()
        };
        assert!(error("vegas", io::ErrorKind::NotFound).contains("modprobe tcp_vegas"));
        assert!(error("x", io::ErrorKind::Other).ends_with("in a: other error"));
    }
}
