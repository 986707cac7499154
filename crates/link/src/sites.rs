//! Two network namespaces joined by a link.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;

use crate::counters::Counters;
use crate::error::LinkError;
use crate::line::Line;
use crate::link::{End, Link, Options};
use crate::namespace::{self, NAMES, Namespace};
use crate::tcp::Tcp;
use crate::units::UnitError;

/// What sites are to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteOptions {
    /// Small letters and digits. The namespaces are `fulmar-NAME-a` and `fulmar-NAME-b`.
    pub name: String,
    /// The name of the device in both.
    pub device: String,
    /// The addresses of either.
    pub addresses: [Vec<String>; 2],
    /// The direction from A to B, and that from B to A.
    pub lines: [Line; 2],
    /// The longest IP packet.
    pub mtu: u16,
    /// What chance does.
    pub seed: u64,
    /// What TCP is to be like in both.
    pub tcp: Tcp,
}

/// Two namespaces and their link. All of it goes when this goes, and what still runs there gets
/// SIGHUP. When the process is killed its
/// devices go at once, and the names when somebody makes sites again.
pub struct Sites {
    link: Link,
    namespaces: [Namespace; 2],
    _claim: UnixListener,
}

const PREFIX: &str = "fulmar-";
const SIDES: [&str; 2] = ["a", "b"];

impl Sites {
    /// Makes the namespaces and the link.
    ///
    /// # Errors
    /// If the name is taken, and what the system refused.
    pub fn start(options: &SiteOptions) -> Result<Self, LinkError> {
        let name = &options.name;
        if !is_name(name) {
            return Err(LinkError::Value(UnitError(format!(
                "{name:?} is no name for sites: it is 1 to 24 small letters and digits"
            ))));
        }
        sweep();
        let claim = claim(name)?;
        remove(name);
        let namespaces = {
            let [a, b] = names_of(name);
            [Namespace::new(a)?, Namespace::new(b)?]
        };
        let end = |side: usize| End {
            namespace: namespaces[side].name().to_owned(),
            device: options.device.clone(),
            addresses: options.addresses[side].clone(),
        };
        let link = Link::start(&Options {
            ends: [end(0), end(1)],
            lines: options.lines,
            mtu: options.mtu,
            seed: options.seed,
        })?;
        for namespace in &namespaces {
            options.tcp.set(namespace.name())?;
        }
        Ok(Self { link, namespaces, _claim: claim })
    }

    /// Returns the names of the two namespaces.
    pub fn namespaces(&self) -> [&str; 2] {
        self.namespaces.each_ref().map(Namespace::name)
    }

    /// Returns the link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns what each direction has carried so far.
    pub fn counters(&self) -> [Counters; 2] {
        self.link.counters()
    }

    /// Returns a command that runs a program at a site, 0 for A and 1 for B. The program is killed
    /// when the thread that starts it ends, so that nothing is left in the namespace.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn command(&self, side: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespaces[side].name()]);
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }
}

/// Names without a hyphen: those of other tools of ours have one.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=24).contains(&name.len()) && name.chars().all(fits)
}

fn names_of(name: &str) -> [String; 2] {
    SIDES.map(|side| format!("{PREFIX}{name}-{side}"))
}

/// Claims a name for this process. The kernel takes the claim back when the process is gone,
/// however it went.
fn claim(name: &str) -> Result<UnixListener, LinkError> {
    let address = SocketAddr::from_abstract_name(format!("{PREFIX}sites-{name}"));
    let claimed = address.and_then(|address| UnixListener::bind_addr(&address));
    claimed.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => LinkError::NameTaken { name: name.to_owned() },
        _ => LinkError::System { what: "cannot claim the name of the sites", error },
    })
}

/// Removes the namespaces of runs that are no more.
fn sweep() {
    let Ok(names) = std::fs::read_dir(NAMES) else { return };
    for file in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let name = file.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-'));
        let Some((name, _)) = name.filter(|(name, side)| is_name(name) && SIDES.contains(side))
        else {
            continue;
        };
        // Nobody who lives can hold the name while this does.
        if let Ok(_claim) = claim(name) {
            remove(name);
        }
    }
}

fn remove(name: &str) {
    for name in names_of(name) {
        if Path::new(NAMES).join(&name).exists() {
            namespace::remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_by_one_at_a_time() {
        let name = format!("t{}", std::process::id());
        let first = claim(&name).unwrap();
        let error = claim(&name).unwrap_err();
        assert!(error.to_string().contains("choose another --name"), "{error}");
        drop(first);
        assert!(claim(&name).is_ok());
    }

    #[test]
    fn only_names_of_ours_are_swept() {
        assert!(is_name("site") && is_name("wan7"));
        for name in ["", "lab-12", "Site", "a/b", "../x", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(!is_name(name), "{name}");
        }
        assert_eq!(names_of("site"), ["fulmar-site-a", "fulmar-site-b"]);
    }
}
