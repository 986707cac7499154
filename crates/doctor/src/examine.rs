//! The examination: every check in its turn.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulmar_lnet_wire::{Net, Nid};

use crate::evidence::{self, Host, LnetSeen, PortOutcome};
use crate::far::{self, Examiner, FarError};
use crate::finding::{Check, Checked, Finding, Level, Measured, Needs, Place, Report, Target};
use crate::judge::{self, Lines, PathNeed};
use crate::measure::{self, Load, Way};

/// What is examined, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The far end, by name, address or NID; this host alone if there is none.
    pub target: Option<String>,
    /// Our address; by default the one from which the far end is reached.
    pub bind: Option<IpAddr>,
    /// The port of `fulmar doctor serve` at the far end.
    pub port: u16,
    /// The port of LNet.
    pub lnet_port: u16,
    /// The control socket of the node that runs on this host; `None` where it is by default.
    pub control: Option<PathBuf>,
    /// Which checks are made.
    pub checks: Vec<Check>,
    /// How long each load of TCP lasts.
    pub time: Duration,
    /// Connections at once, beside one.
    pub streams: u32,
    /// The rate of datagrams, in bits per second on the wire of Ethernet; at most [`far::RATE_MAX`].
    pub udp_rate: u64,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for Options {
    /// Every check of this host alone; less than a minute with a far end.
    fn default() -> Self {
        Self {
            target: None,
            bind: None,
            port: far::PORT,
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

/// How the examination goes on, for people who wait.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A check begins.
    Begins(Check),
    /// It has ended.
    Ended(&'a Checked),
}

/// Datagrams are sent for so long each way, at most.
const UDP_TIME_MAX: Duration = Duration::from_secs(2);
/// All sizes of messages together take so long where the path is short.
const LATENCY_TIME: Duration = Duration::from_secs(3);
/// Payload of datagrams where the path's MTU is not known; more never helps.
const DATAGRAM: (u32, u32) = (1400, 8900);
/// Round trips of which the shortest is the path's.
const ROUND_TRIPS: u64 = 10;

/// Examines, and tells how it goes on.
pub fn examine(options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Report {
    let begun = Instant::now();
    let mut examination = Examination::begin(options);
    let mut checks = Vec::new();
    for check in Check::ALL.into_iter().filter(|check| options.checks.contains(check)) {
        if options.target.is_none() && check.needs() != Needs::Nothing {
            continue;
        }
        progress(Progress::Begins(check));
        let begun = Instant::now();
        let (findings, not_examined) = match examination.check(check) {
            Ok(findings) => (findings, examination.without_far(check)),
            Err(why) => (Vec::new(), Some(why)),
        };
        let took_ms = begun.elapsed().as_millis() as u64;
        let checked = Checked { check, took_ms, findings, not_examined };
        progress(Progress::Ended(&checked));
        checks.push(checked);
    }
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let worst = checks.iter().filter_map(Checked::worst).max().unwrap_or(Level::Ok);
    let Examination { target, measured, here, there, .. } = examination;
    Report {
        version: 1,
        fulmar: env!("CARGO_PKG_VERSION").to_owned(),
        at,
        seconds: begun.elapsed().as_secs_f64(),
        target,
        worst,
        checks,
        measured,
        here,
        there,
    }
}

struct Examination<'a> {
    options: &'a Options,
    here: Host,
    there: Option<Host>,
    target: Option<Target>,
    far: Option<Examiner>,
    /// Why there is no far end that serves.
    no_far: String,
    round_trip_us: f64,
    measured: Measured,
}

impl<'a> Examination<'a> {
    /// Finds the far end, and looks at both hosts.
    fn begin(options: &'a Options) -> Self {
        let mut this = Self {
            options,
            here: Host::default(),
            there: None,
            target: None,
            far: None,
            no_far: String::new(),
            round_trip_us: 0.0,
            measured: Measured::default(),
        };
        let nid: Option<Nid> = options.target.as_ref().and_then(|name| name.parse().ok());
        let name = options.target.as_ref().map(|name| match nid.and_then(|nid| nid.ip()) {
            Some(address) => address.to_string(),
            None => name.split('@').next().unwrap_or(name).to_owned(),
        });
        let names = evidence::look_at_names(name.as_deref());
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
        this.here = evidence::gather(local);
        this.connect();
        this
    }

    /// Calls the far end, if any check is the better for it.
    fn connect(&mut self) {
        let Some(target) = &self.target else {
            self.no_far = match &self.options.target {
                Some(name) => format!("{name} stands for no address"),
                None => String::new(),
            };
            return;
        };
        let needed = self.options.checks.iter().any(|check| check.needs() != Needs::Host);
        let at = SocketAddr::new(target.address, self.options.port);
        if !needed {
            return;
        }
        match Examiner::connect(at, self.options.bind, self.options.timeout) {
            Ok(far) => {
                let trips = (0..ROUND_TRIPS)
                    .filter_map(|number| measure::round_trip(far.udp(), far.token(), number));
                self.round_trip_us = trips.fold(f64::INFINITY, f64::min);
                match far.host() {
                    Ok(host) => self.there = Some(host),
                    Err(error) => self.no_far = error.to_string(),
                }
                self.far = Some(far);
            }
            Err(FarError::Io { error, .. }) => {
                self.no_far =
                    format!("nobody serves at {at} ({error}): run \"fulmar doctor serve\" there");
            }
            Err(error) => self.no_far = error.to_string(),
        }
        if !self.round_trip_us.is_finite() {
            // No datagram has passed; a request and its reply take little longer.
            let exchange = self.far.as_ref().and_then(|far| measure::clock(far).ok());
            self.round_trip_us = exchange.map_or(0.0, |seen| seen.error_us * 2.0);
        }
        self.measured.round_trip_us = self.far.as_ref().map(|_| self.round_trip_us);
    }

    /// Says what part of a check was not made for want of a far end.
    fn without_far(&self, check: Check) -> Option<String> {
        let missing = self.options.target.is_some() && self.there.is_none();
        let halved = check.needs() == Needs::Nothing && check != Check::Names;
        (missing && halved).then(|| format!("the far host: {}", self.no_far))
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

    /// Makes a check that looks at a host's evidence.
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
        let there = self.there.as_ref().map(|host| (Place::There, host));
        std::iter::once((Place::Here, &self.here)).chain(there).collect()
    }

    /// Returns the speed of the slower of both links, in bits per second, if both are known.
    fn line(&self) -> Option<f64> {
        let speed = |host: &Host| Some(host.path_device()?.speed? as f64 * 1e6);
        let (here, there) = (speed(&self.here), self.there.as_ref().and_then(speed));
        match (here, there) {
            (Some(here), Some(there)) => Some(here.min(there)),
            (known, None) | (None, known) => known,
        }
    }

    /// Returns what the path needs; `None` if no far end serves.
    fn path(&self) -> Option<PathNeed> {
        self.there.as_ref()?;
        let best = self.measured.tcp.iter().map(|run| run.settled).fold(0.0, f64::max);
        let rate = self.line().unwrap_or(best).max(best);
        Some(PathNeed { rate, round_trip_us: self.round_trip_us })
    }

    fn at(&self, port: u16) -> Result<SocketAddr, String> {
        let target = self.target.as_ref().ok_or_else(|| self.no_far.clone())?;
        Ok(SocketAddr::new(target.address, port))
    }

    fn port(&mut self) -> Result<Vec<Finding>, String> {
        let seen = evidence::knock(self.at(self.options.lnet_port)?, self.options.timeout);
        let found = judge::port(&seen);
        self.measured.port = Some(seen);
        Ok(found)
    }

    fn lnet(&mut self) -> Result<Vec<Finding>, String> {
        let at = self.at(self.options.lnet_port)?;
        let nid = self.target.as_ref().map(|target| target.nid.clone()).unwrap_or_default();
        let open = match &self.measured.port {
            Some(seen) => seen.outcome == PortOutcome::Open,
            None => evidence::knock(at, self.options.timeout).outcome == PortOutcome::Open,
        };
        if !open {
            return Err(format!("TCP port {} takes no connection", at.port()));
        }
        let parsed: Nid = nid.parse().map_err(|error| format!("{nid}: {error}"))?;
        let (client, listens) =
            (evidence::client(self.options.control.as_deref()), self.here.listens);
        let seen = evidence::ask_lnet(parsed, at.port(), &client, listens, self.options.timeout);
        let found = judge::lnet(&seen, &nid, open);
        let not_asked = match &seen {
            LnetSeen::NotAsked { why } => Some(why.clone()),
            _ => None,
        };
        self.measured.lnet = Some(seen);
        not_asked.map_or(Ok(found), Err)
    }

    /// Has a far end that serves do something. One that fails is not asked again.
    fn with_far<T>(
        &mut self,
        work: impl FnOnce(&Examiner) -> Result<T, FarError>,
    ) -> Result<T, String> {
        let far = self.far.as_ref().ok_or_else(|| self.no_far.clone())?;
        work(far).map_err(|error| {
            let why = error.to_string();
            if !matches!(error, FarError::Refused { .. }) {
                self.no_far.clone_from(&why);
                self.far = None;
            }
            why
        })
    }

    fn mtu(&mut self) -> Result<Vec<Finding>, String> {
        let of = |host: Option<&Host>| host.and_then(Host::path_device).map(|device| device.mtu);
        let here = of(Some(&self.here)).unwrap_or(1500);
        let there = of(self.there.as_ref()).unwrap_or(here);
        let seen = self.with_far(|far| measure::mtu(far, here, there))?;
        self.measured.mtu = Some(seen);
        let device = self.here.device.as_deref().unwrap_or("DEV");
        Ok(judge::mtu(&seen, device, self.here.tcp.mtu_probing.unwrap_or(0)))
    }

    fn udp(&mut self) -> Result<Vec<Finding>, String> {
        let passes = self.measured.mtu.and_then(|seen| Some(seen.out?.min(seen.back?)));
        let target = self.target.as_ref().map(|target| target.address);
        let headers = target.map_or(0, far::headers);
        let size =
            passes.map_or(DATAGRAM.0, |mtu| mtu.saturating_sub(headers).clamp(64, DATAGRAM.1));
        let (rate, time) = (self.options.udp_rate, self.options.time.min(UDP_TIME_MAX));
        let seen = self.with_far(|far| measure::udp(far, rate, size, time))?;
        self.measured.udp = Some(seen);
        Ok(judge::udp(&seen))
    }

    fn tcp(&mut self) -> Result<Vec<Finding>, String> {
        let (time, many) = (self.options.time, self.options.streams);
        let counts = if many > 1 { vec![1, many] } else { vec![1] };
        for way in [Way::Out, Way::Back] {
            for streams in &counts {
                let load = Load { way, streams: *streams, time };
                let run = self.with_far(|far| measure::tcp(far, load))?;
                self.measured.tcp.push(run);
            }
        }
        let name = |host: Option<&Host>| {
            host.and_then(|host| host.device.clone()).unwrap_or_else(|| "DEV".to_owned())
        };
        let (here, there) = (name(Some(&self.here)), name(self.there.as_ref()));
        let lines = Lines { rate: self.line(), here, there };
        let round_trip_us = self.round_trip_us;
        let path = self.path().unwrap_or(PathNeed { rate: 0.0, round_trip_us });
        Ok(judge::tcp(&self.measured.tcp, path, &lines))
    }

    fn latency(&mut self) -> Result<Vec<Finding>, String> {
        self.measured.latency = self.with_far(|far| measure::latency(far, LATENCY_TIME))?;
        Ok(judge::latency(&self.measured.latency))
    }

    fn clock(&mut self) -> Result<Vec<Finding>, String> {
        if self.far.is_some() {
            self.measured.clock = Some(self.with_far(measure::clock)?);
        }
        Ok(judge::clock(&self.hosts(), self.measured.clock))
    }
}
