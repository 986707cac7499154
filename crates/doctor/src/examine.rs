//! Runs the checks one after the other.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulmar_lnet_wire::{Net, Nid};

use crate::evidence::{self, Host, LnetResult, PortOutcome};
use crate::finding::{
    Check, CheckResult, Finding, Level, Measurements, Needs, Place, Report, Target,
};
use crate::judge::{self, Lines, PathNeed};
use crate::measure::{self, Direction, Load, MtuResult};
use crate::remote::{self, Examiner, RemoteError};

/// What to examine, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The name, address or NID of the remote host; `None` to examine only the local host.
    pub target: Option<String>,
    /// The local address; by default the system chooses it by the route.
    pub bind: Option<IpAddr>,
    /// The port of `fulmar doctor serve` on the remote host.
    pub port: u16,
    /// The TCP port of LNet on the remote host.
    pub lnet_port: u16,
    /// The control socket of the local node; `None` for the one that runs.
    pub control: Option<PathBuf>,
    /// Which checks to run.
    pub checks: Vec<Check>,
    /// The duration of each TCP load.
    pub time: Duration,
    /// Number of connections of the second TCP load in each direction; the first has one.
    pub streams: u32,
    /// The rate of datagrams, in bits per second on Ethernet; at most [`remote::RATE_MAX`].
    pub udp_rate: u64,
    /// The timeout of connections and pings.
    pub timeout: Duration,
}

impl Default for Options {
    /// All checks, of the local host only. With a target they take less than a minute.
    fn default() -> Self {
        Self {
            target: None,
            bind: None,
            port: remote::PORT,
            lnet_port: fulmar_lnet_wire::socklnd::ACCEPT_PORT,
            control: None,
            checks: Check::ALL.to_vec(),
            time: Duration::from_secs(3),
            streams: 4,
            udp_rate: 100_000_000,
            timeout: Duration::from_secs(5),
        }
    }
}

/// Progress of an examination.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A check starts.
    Started(Check),
    /// A check is finished.
    Finished(&'a CheckResult),
}

/// Longest time of the datagrams in each direction.
const UDP_TIME_MAX: Duration = Duration::from_secs(2);
/// Time for all message sizes together, where the path is short.
const LATENCY_TIME: Duration = Duration::from_secs(3);
/// Payload of datagrams if the path MTU is unknown, and the largest payload used.
const DATAGRAM: (u32, u32) = (1400, 8900);
/// The shortest of so many round trips is taken as the path's.
const ROUND_TRIPS: u64 = 10;

/// Runs the checks, and reports progress.
pub fn examine(options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Report {
    let start = Instant::now();
    let mut examination = Examination::begin(options);
    let mut checks = Vec::new();
    for check in Check::ALL.into_iter().filter(|check| options.checks.contains(check)) {
        if options.target.is_none() && check.needs() != Needs::Nothing {
            continue;
        }
        progress(Progress::Started(check));
        let check_start = Instant::now();
        let (findings, not_examined) = match examination.check(check) {
            Ok(findings) => (findings, examination.missing_part(check)),
            Err(why) => (Vec::new(), Some(why)),
        };
        let took_ms = check_start.elapsed().as_millis() as u64;
        let checked = CheckResult { check, took_ms, findings, not_examined };
        progress(Progress::Finished(&checked));
        checks.push(checked);
    }
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let worst = checks.iter().filter_map(CheckResult::worst).max().unwrap_or(Level::Ok);
    let Examination { target, measured, local, remote, .. } = examination;
    Report {
        version: 1,
        fulmar: env!("CARGO_PKG_VERSION").to_owned(),
        at,
        seconds: start.elapsed().as_secs_f64(),
        target,
        worst,
        checks,
        measured,
        local,
        remote,
    }
}

struct Examination<'a> {
    options: &'a Options,
    local: Host,
    remote: Option<Host>,
    target: Option<Target>,
    examiner: Option<Examiner>,
    /// Why there is no server on the remote host.
    no_server: String,
    round_trip_us: f64,
    measured: Measurements,
}

impl<'a> Examination<'a> {
    /// Resolves the target, gathers the evidence of both hosts and connects to the server.
    fn begin(options: &'a Options) -> Self {
        let mut this = Self {
            options,
            local: Host::default(),
            remote: None,
            target: None,
            examiner: None,
            no_server: String::new(),
            round_trip_us: 0.0,
            measured: Measurements::default(),
        };
        let nid: Option<Nid> = options.target.as_ref().and_then(|name| name.parse().ok());
        let name = options.target.as_ref().map(|name| match nid.and_then(|nid| nid.ip()) {
            Some(address) => address.to_string(),
            None => name.split('@').next().unwrap_or(name).to_owned(),
        });
        let names = evidence::look_up_names(name.as_deref());
        let address = names.addresses.first().copied().filter(|_| name.is_some());
        let mut local = None;
        if let (Some(name), Some(address)) = (&options.target, address) {
            let net = name.split_once('@').and_then(|(_, net)| net.parse().ok());
            let nid = nid.unwrap_or_else(|| Nid::of_ip(net.unwrap_or(Net::TCP), address));
            this.target = Some(Target { name: name.clone(), address, nid: nid.to_string() });
            let remote = SocketAddr::new(address, options.port);
            local = options.bind.or_else(|| measure::local_address(remote).ok());
        }
        this.measured.names = Some(names);
        this.local = evidence::gather(local);
        this.connect();
        this
    }

    /// Connects to the server on the remote host, if any check can use it.
    fn connect(&mut self) {
        let Some(target) = &self.target else {
            self.no_server = match &self.options.target {
                Some(name) => format!("{name} does not resolve to an address"),
                None => String::new(),
            };
            return;
        };
        let wants = |check: &Check| *check == Check::Mtu || check.needs() != Needs::Host;
        let needed = self.options.checks.iter().any(wants);
        let at = SocketAddr::new(target.address, self.options.port);
        if !needed {
            return;
        }
        match Examiner::connect(at, self.options.bind, self.options.timeout) {
            Ok(examiner) => {
                let trips = (0..ROUND_TRIPS).filter_map(|number| {
                    measure::round_trip(examiner.udp(), examiner.token(), number)
                });
                self.round_trip_us = trips.fold(f64::INFINITY, f64::min);
                match examiner.host() {
                    Ok(host) => self.remote = Some(host),
                    Err(error) => self.no_server = error.to_string(),
                }
                self.examiner = Some(examiner);
            }
            Err(RemoteError::Io { error, .. }) => {
                self.no_server =
                    format!("cannot connect to {at} ({error}): run \"fulmar doctor serve\" there");
            }
            Err(error) => self.no_server = error.to_string(),
        }
        if !self.round_trip_us.is_finite() {
            // Datagrams do not pass; the round trip of a request on TCP is close.
            let exchange =
                self.examiner.as_ref().and_then(|examiner| measure::clock(examiner).ok());
            self.round_trip_us = exchange.map_or(0.0, |seen| seen.error_us * 2.0);
        }
        self.measured.round_trip_us = self.examiner.as_ref().map(|_| self.round_trip_us);
    }

    /// Returns why the part of a check that concerns the remote host did not run.
    fn missing_part(&self, check: Check) -> Option<String> {
        let missing = self.options.target.is_some() && self.remote.is_none();
        let local_only = check.needs() == Needs::Nothing && check != Check::Names;
        match check {
            Check::Mtu if missing => Some(format!("the way back: {}", self.no_server)),
            _ => (missing && local_only).then(|| format!("the remote host: {}", self.no_server)),
        }
    }

    fn check(&mut self, check: Check) -> Result<Vec<Finding>, String> {
        match check {
            Check::Names => Ok(self.measured.names.iter().flat_map(judge::names).collect()),
            Check::Port => self.port(),
            Check::Lnet => self.lnet(),
            Check::Mtu => self.mtu(),
            Check::Udp => self.udp(),
            Check::Tcp => self.tcp(),
            Check::Latency => self.latency(),
            Check::Clock => self.clock(),
            _ => Ok(self
                .hosts()
                .into_iter()
                .flat_map(|(at, host)| self.host(check, at, host))
                .collect()),
        }
    }

    /// Runs a check of the evidence of one host.
    fn host(&self, check: Check, place: Place, host: &Host) -> Vec<Finding> {
        let path = self.path();
        match check {
            Check::Sockets => judge::sockets(place, &host.tcp, path),
            Check::Congestion => {
                let losses = self.measured.tcp.iter().any(|run| run.retransmitted() > 1e-4);
                judge::congestion(place, host, path, losses)
            }
            Check::Queue => judge::queue(place, host, path),
            Check::Nic => judge::nic(place, host),
            Check::Offload => judge::offload(place, host),
            Check::Irq => judge::irq(place, host),
            Check::Cpu => judge::cpu(place, host),
            Check::Limits => judge::limits(place, host),
            Check::Firewall => {
                let open = PortOutcome::Open;
                let reached = self.measured.port.as_ref().is_some_and(|seen| seen.outcome == open);
                judge::firewall(place, host, reached)
            }
            _ => Vec::new(),
        }
    }

    fn hosts(&self) -> Vec<(Place, &Host)> {
        let remote = self.remote.as_ref().map(|host| (Place::Remote, host));
        std::iter::once((Place::Local, &self.local)).chain(remote).collect()
    }

    /// Returns the speed of the slower of both hosts' links, in bits per second; of the one that is
    /// known if the other is not.
    fn line(&self) -> Option<f64> {
        let speed = |host: &Host| Some(host.path_device()?.speed? as f64 * 1e6);
        let (local, remote) = (speed(&self.local), self.remote.as_ref().and_then(speed));
        match (local, remote) {
            (Some(local), Some(remote)) => Some(local.min(remote)),
            (known, None) | (None, known) => known,
        }
    }

    /// Returns the rate and round trip of the path; `None` without a server.
    fn path(&self) -> Option<PathNeed> {
        self.remote.as_ref()?;
        let best = self.measured.tcp.iter().map(|run| run.settled).fold(0.0, f64::max);
        let rate = self.line().unwrap_or(best).max(best);
        Some(PathNeed { rate, round_trip_us: self.round_trip_us })
    }

    fn at(&self, port: u16) -> Result<SocketAddr, String> {
        let target = self.target.as_ref().ok_or_else(|| self.no_server.clone())?;
        Ok(SocketAddr::new(target.address, port))
    }

    fn port(&mut self) -> Result<Vec<Finding>, String> {
        let seen = evidence::probe_port(self.at(self.options.lnet_port)?, self.options.timeout);
        let found = judge::port(&seen);
        self.measured.port = Some(seen);
        Ok(found)
    }

    fn lnet(&mut self) -> Result<Vec<Finding>, String> {
        let at = self.at(self.options.lnet_port)?;
        let nid = self.target.as_ref().map(|target| target.nid.clone()).unwrap_or_default();
        let open = match &self.measured.port {
            Some(seen) => seen.outcome == PortOutcome::Open,
            None => evidence::probe_port(at, self.options.timeout).outcome == PortOutcome::Open,
        };
        if !open {
            return Err(format!("TCP port {} does not accept connections", at.port()));
        }
        let parsed: Nid = nid.parse().map_err(|error| format!("{nid}: {error}"))?;
        let (client, listens) =
            (evidence::client(self.options.control.as_deref()), self.local.listens);
        let seen = evidence::ping_lnet(parsed, at.port(), &client, listens, self.options.timeout);
        let found = judge::lnet(&seen, &nid, open);
        let not_sent = match &seen {
            LnetResult::NotSent { why } => Some(why.clone()),
            _ => None,
        };
        self.measured.lnet = Some(seen);
        not_sent.map_or(Ok(found), Err)
    }

    /// Runs `work` with the server on the remote host. After a failure, except a refusal, no
    /// further check uses it.
    fn with_server<T>(
        &mut self,
        work: impl FnOnce(&Examiner) -> Result<T, RemoteError>,
    ) -> Result<T, String> {
        let examiner = self.examiner.as_ref().ok_or_else(|| self.no_server.clone())?;
        work(examiner).map_err(|error| {
            let why = error.to_string();
            if !matches!(error, RemoteError::Refused { .. }) {
                self.no_server.clone_from(&why);
                self.examiner = None;
            }
            why
        })
    }

    fn mtu(&mut self) -> Result<Vec<Finding>, String> {
        let of = |host: Option<&Host>| host.and_then(Host::path_device).map(|device| device.mtu);
        let local = of(Some(&self.local)).unwrap_or(1500);
        let remote = of(self.remote.as_ref()).unwrap_or(local);
        let seen = match self.examiner {
            Some(_) => self.with_server(|examiner| measure::mtu(examiner, local, remote))?,
            None => self.mtu_by_icmp(local)?,
        };
        self.measured.mtu = Some(seen);
        let device = self.local.device.as_deref().unwrap_or("DEV");
        Ok(judge::mtu(&seen, device, self.local.tcp.mtu_probing.unwrap_or(0)))
    }

    /// Measures towards a host without a server, which answers ICMP echoes.
    fn mtu_by_icmp(&self, local: u32) -> Result<MtuResult, String> {
        let to = self.at(self.options.port)?;
        let from = self.options.bind.map_or_else(|| measure::local_address(to), Ok)?;
        measure::mtu_by_icmp(from, to, local)
            .map_err(|error| format!("cannot send ICMP echoes ({error}), and {}", self.no_server))
    }

    fn udp(&mut self) -> Result<Vec<Finding>, String> {
        let passes = self.measured.mtu.and_then(|seen| Some(seen.out?.min(seen.back?)));
        let target = self.target.as_ref().map(|target| target.address);
        let headers = target.map_or(0, remote::headers);
        let size =
            passes.map_or(DATAGRAM.0, |mtu| mtu.saturating_sub(headers).clamp(64, DATAGRAM.1));
        let (rate, time) = (self.options.udp_rate, self.options.time.min(UDP_TIME_MAX));
        let seen = self.with_server(|examiner| measure::udp(examiner, rate, size, time))?;
        self.measured.udp = Some(seen);
        Ok(judge::udp(&seen))
    }

    fn tcp(&mut self) -> Result<Vec<Finding>, String> {
        let (time, many) = (self.options.time, self.options.streams);
        let counts = if many > 1 { vec![1, many] } else { vec![1] };
        for direction in [Direction::Out, Direction::In] {
            for streams in &counts {
                let load = Load { direction, streams: *streams, time };
                let run = self.with_server(|examiner| measure::tcp(examiner, load))?;
                self.measured.tcp.push(run);
            }
        }
        let name = |host: Option<&Host>| {
            host.and_then(|host| host.device.clone()).unwrap_or_else(|| "DEV".to_owned())
        };
        let (local, remote) = (name(Some(&self.local)), name(self.remote.as_ref()));
        let lines = Lines { rate: self.line(), local, remote };
        let round_trip_us = self.round_trip_us;
        let path = self.path().unwrap_or(PathNeed { rate: 0.0, round_trip_us });
        Ok(judge::tcp(&self.measured.tcp, path, &lines))
    }

    fn latency(&mut self) -> Result<Vec<Finding>, String> {
        self.measured.latency =
            self.with_server(|examiner| measure::latency(examiner, LATENCY_TIME))?;
        Ok(judge::latency(&self.measured.latency))
    }

    fn clock(&mut self) -> Result<Vec<Finding>, String> {
        if self.examiner.is_some() {
            self.measured.clock = Some(self.with_server(measure::clock)?);
        }
        Ok(judge::clock(&self.hosts(), self.measured.clock))
    }
}
