//! What a link may fail with, for people.

use std::io;
use std::path::PathBuf;

use crate::units::UnitError;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LinkError {
    #[error("{0}")]
    Value(#[from] UnitError),
    #[error("{direction}: {error}")]
    Line { direction: &'static str, error: UnitError },
    #[error(
        "there is no network namespace {name} ({error}); make it with 'ip netns add {name}', or \
         let 'fulmar link sites' make two"
    )]
    NoNamespace { name: String, error: io::Error },
    #[error("cannot enter the network namespace {name}: {error}; a link needs root")]
    Enter { name: String, error: io::Error },
    #[error("cannot make the device {device} in {namespace}: {error}{}", hint(.error))]
    Device { device: String, namespace: String, error: io::Error },
    #[error("cannot set {setting} to {value:?} in {namespace}: {error}{}", allowed(.setting, .value, .error))]
    Setting { setting: String, value: String, namespace: String, error: io::Error },
    #[error("{0}")]
    Command(String),
    #[error("{name:?} is taken by another run of 'fulmar link sites': choose another --name")]
    NameTaken { name: String },
    #[error("cannot lock {}: {error}; making sites needs root", .file.display())]
    Lock { file: PathBuf, error: io::Error },
    #[error("{what}: {error}")]
    System { what: &'static str, error: io::Error },
}

/// Says what to do about a device that cannot be made.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ResourceBusy => "; there is one of that name: choose another",
        io::ErrorKind::PermissionDenied => "; a link needs root (CAP_NET_ADMIN)",
        io::ErrorKind::NotFound => "; this kernel has no TUN devices: try 'modprobe tun'",
        _ => "",
    }
}

/// Says how a kernel comes to a congestion control.
fn allowed(setting: &str, value: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if setting.ends_with("tcp_congestion_control") => format!(
            "; net.ipv4.tcp_available_congestion_control lists what this kernel has: try \
             'modprobe tcp_{value}'"
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_refused_says_what_to_do() {
        let told = |value: &str, kind: io::ErrorKind| {
            let error = io::Error::from(kind);
            let setting = "net.ipv4.tcp_congestion_control".to_owned();
            let (value, namespace) = (value.to_owned(), "a".to_owned());
            LinkError::Setting { setting, value, namespace, error }.to_string()
        };
        assert!(told("vegas", io::ErrorKind::NotFound).contains("modprobe tcp_vegas"));
        assert!(told("x", io::ErrorKind::Other).ends_with("in a: other error"));
    }
}
