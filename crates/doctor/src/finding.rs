//! Findings, their levels, and the report.

use serde::{Deserialize, Serialize};

use crate::evidence::{Host, LnetResult, NamesResult, PortResult};
use crate::measure::{ClockResult, LatencyRow, MtuResult, TcpRun, UdpResult};

/// The severity of a finding, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No problem.
    Ok,
    /// Worth knowing: it may reduce performance on some paths.
    Note,
    /// It reduces throughput or reliability, or adds latency.
    Warning,
    /// LNet does not work, or hardly works.
    Error,
}

impl Level {
    /// Every level, from bad to good.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Note, Self::Ok];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where a problem is, and where to fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On the local host.
    Local,
    /// On the remote host.
    Remote,
    /// Between the hosts.
    Path,
}

impl Place {
    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Path => "path",
        }
    }
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub level: Level,
    /// Where it is.
    pub place: Place,
    /// A short description.
    pub what: String,
    /// The values that show it.
    pub evidence: String,
    /// How to fix it: a command, or a short instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// Returns a finding without a remedy.
    pub fn new(
        level: Level,
        place: Place,
        what: impl Into<String>,
        evidence: impl Into<String>,
    ) -> Self {
        Self { level, place, what: what.into(), evidence: evidence.into(), remedy: None }
    }

    /// Returns a finding that reports no problem.
    pub fn ok(place: Place, what: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Level::Ok, place, what, evidence)
    }

    /// Adds a remedy.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// A check.
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
    /// Every check, in the order in which they run.
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

    /// Returns its name on the command line and in reports.
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

    /// Returns what it needs of the remote host.
    pub fn needs(self) -> Needs {
        match self {
            Self::Port | Self::Lnet | Self::Mtu => Needs::Host,
            Self::Udp | Self::Tcp | Self::Latency => Needs::Server,
            _ => Needs::Nothing,
        }
    }
}

impl std::str::FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|check| check.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!("unknown check {text:?}: use one of {words}")
        })
    }
}

/// What a check needs of the remote host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it checks the local host, and the remote one if that runs the server.
    Nothing,
    /// An address to connect to.
    Host,
    /// A running `fulmar doctor serve`.
    Server,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Which check.
    pub check: Check,
    /// Its duration, in milliseconds.
    pub took_ms: u64,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Why it, or the part of it that needs the remote host, did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_examined: Option<String>,
}

impl CheckResult {
    /// Returns the worst level; `None` without findings.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

/// The remote host under examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The name, address or NID that the user gave.
    pub name: String,
    /// Its address.
    pub address: std::net::IpAddr,
    /// The NID to ping.
    pub nid: String,
}

/// All measurements; those that did not run are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Measurements {
    /// The shortest round trip to the server on the remote host, in microseconds.
    pub round_trip_us: Option<f64>,
    pub names: Option<NamesResult>,
    pub port: Option<PortResult>,
    pub lnet: Option<LnetResult>,
    pub mtu: Option<MtuResult>,
    pub udp: Option<UdpResult>,
    pub tcp: Vec<TcpRun>,
    pub latency: Vec<LatencyRow>,
    pub clock: Option<ClockResult>,
}

/// The report of an examination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: 1.
    pub version: u32,
    /// The release of Fulmar that wrote it.
    pub fulmar: String,
    /// The time, in seconds since 1970.
    pub at: u64,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The remote host; `None` if only the local host was examined.
    pub target: Option<Target>,
    /// The worst level of all findings.
    pub worst: Level,
    /// Every check, in order.
    pub checks: Vec<CheckResult>,
    /// The measurements.
    pub measured: Measurements,
    /// The local host.
    pub local: Host,
    /// The remote host, if it runs the server.
    pub remote: Option<Host>,
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
