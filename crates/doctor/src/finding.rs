//! What was found, and how bad it is.

use serde::{Deserialize, Serialize};

use crate::evidence::{Host, LnetSeen, NamesSeen, PortSeen};
use crate::measure::{ClockSeen, LatencyRow, MtuSeen, TcpRun, UdpSeen};

/// How bad something is, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; it may cost something on some paths.
    Note,
    /// It costs throughput, latency or reliability.
    Warning,
    /// LNet does not work, or hardly.
    Error,
}

impl Level {
    /// Every level, from bad to good.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Note, Self::Ok];

    /// Returns its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where something was found, and is to be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On this host.
    Here,
    /// On the far host.
    There,
    /// Between both.
    Path,
}

impl Place {
    /// Returns its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::There => "there",
            Self::Path => "path",
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// Where it is.
    pub place: Place,
    /// What it is, in a few words.
    pub what: String,
    /// The numbers that show it.
    pub evidence: String,
    /// What to do about it: a command, or a few words where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    /// Says that something was found.
    pub fn new(
        level: Level,
        place: Place,
        what: impl Into<String>,
        evidence: impl Into<String>,
    ) -> Self {
        Self { level, place, what: what.into(), evidence: evidence.into(), mend: None }
    }

    /// Says that something is as it should be.
    pub fn ok(place: Place, what: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Level::Ok, place, what, evidence)
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }
}

/// One thing that is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Check {
    Names,
    Port,
    Lnet,
    Mtu,
    Udp,
    Tcp,
    Latency,
    Clock,
    Sockets,
    Congestion,
    Queue,
    Nic,
    Offload,
    Irq,
    Cpu,
    Limits,
    Firewall,
}

impl Check {
    /// Every check, in the order in which they are made.
    pub const ALL: [Self; 17] = [
        Self::Names,
        Self::Port,
        Self::Lnet,
        Self::Mtu,
        Self::Udp,
        Self::Tcp,
        Self::Latency,
        Self::Clock,
        Self::Sockets,
        Self::Congestion,
        Self::Queue,
        Self::Nic,
        Self::Offload,
        Self::Irq,
        Self::Cpu,
        Self::Limits,
        Self::Firewall,
    ];

    /// Returns the word by which it is named.
    pub fn word(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Port => "port",
            Self::Lnet => "lnet",
            Self::Mtu => "mtu",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Latency => "latency",
            Self::Clock => "clock",
            Self::Sockets => "sockets",
            Self::Congestion => "congestion",
            Self::Queue => "queue",
            Self::Nic => "nic",
            Self::Offload => "offload",
            Self::Irq => "irq",
            Self::Cpu => "cpu",
            Self::Limits => "limits",
            Self::Firewall => "firewall",
        }
    }

    /// Whether it needs a far end that serves, and whether one that does not serve will do.
    pub fn needs(self) -> Needs {
        match self {
            Self::Port | Self::Lnet => Needs::Host,
            Self::Mtu | Self::Udp | Self::Tcp | Self::Latency => Needs::Server,
            _ => Needs::Nothing,
        }
    }
}

impl std::str::FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|check| check.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!("there is no check {text}: it is one of {words}")
        })
    }
}

/// What a check needs of the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// It looks at this host, and at the far one if that is served.
    Nothing,
    /// An address to call.
    Host,
    /// `fulmar doctor serve`.
    Server,
}

/// A check that was made, or was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Which.
    pub check: Check,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Why it, or the part of it that needs the far end, was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_examined: Option<String>,
}

impl Checked {
    /// Returns the worst that was found, if anything was examined.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

/// Whom the examination is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// As it was given.
    pub name: String,
    /// The address that is examined.
    pub address: std::net::IpAddr,
    /// The NID that is asked.
    pub nid: String,
}

/// Everything that was measured, as far as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Measured {
    /// The shortest round trip to a far end that serves, in microseconds.
    pub round_trip_us: Option<f64>,
    pub names: Option<NamesSeen>,
    pub port: Option<PortSeen>,
    pub lnet: Option<LnetSeen>,
    pub mtu: Option<MtuSeen>,
    pub udp: Option<UdpSeen>,
    pub tcp: Vec<TcpRun>,
    pub latency: Vec<LatencyRow>,
    pub clock: Option<ClockSeen>,
}

/// What an examination has brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The form of this document: 1.
    pub version: u32,
    /// The release of Fulmar that examined.
    pub fulmar: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The far end; `None` if this host alone was examined.
    pub target: Option<Target>,
    /// The worst level that was found.
    pub worst: Level,
    /// Every check, in order.
    pub checks: Vec<Checked>,
    /// What was measured.
    pub measured: Measured,
    /// This host.
    pub here: Host,
    /// The far host, if it is served.
    pub there: Option<Host>,
}

impl Report {
    /// Returns all findings of a level with their checks, in order.
    pub fn at_level(&self, level: Level) -> impl Iterator<Item = (Check, &Finding)> {
        let findings = self.checks.iter().flat_map(|checked| {
            checked.findings.iter().map(move |finding| (checked.check, finding))
        });
        findings.filter(move |(_, finding)| finding.level == level)
    }
}
