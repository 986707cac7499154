//! Attacks on a management service and an OST, beside honest clients of them.

use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_base::Rng;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use super::attacks::Attack;
use super::honest::{Honest, Worker};
use super::memory::{Watch, connections};
use super::mix::{Mix, MixReport, RSS_MAX_MIB};
use super::requests::CONTESTED;
use super::stage::{ATTACKED, Stage, nid};
use super::trial::AttackReport;
use super::{Orders, Tally};
use crate::lab::{Host, Lab, Program, Switch};
use crate::targets::TargetState;

/// ```text
/// attacked 10.1.0.1 ── switch ── attacker 10.1.1.1, and behind it 10.3.0.0/16
///                        └────── honest   10.1.0.3 works, .4 wants the contested lock, newcomers
/// ```
struct Targets {
    attacked: Program,
    attacker: Host,
    honest: Host,
    runtime: Runtime,
    _host: Host,
    _switch: Switch,
    newcomers: u8,
}

/// How long the holder of a lock has, in seconds.
const LOCK_TIMEOUT: u64 = 2;
/// How long LNet waits for answers, in seconds.
const TIMEOUT: u32 = 5;
/// An honest client waits for a lock behind a few holders, each of which is evicted in turn.
const GRANT_MAX: Duration = Duration::from_secs(30);
/// A new client is served within this time.
const NEWCOMER_MAX: Duration = Duration::from_secs(30);
/// How long what is left of the attacks may stay.
const AFTER_MAX: Duration = Duration::from_secs(120);
/// How long the service is measured, alone and beside an attack.
const WINDOW: Duration = Duration::from_millis(1500);
/// The object whose lock no other wants.
const OWN: u64 = 1000;
/// Ping once in so many rounds.
const PINGS: u32 = 8;

impl Targets {
    fn new(lab: &Lab) -> Result<Self, String> {
        let switch = lab.switch("front")?;
        let host = |name: &str, address: &str| -> Result<Host, String> {
            let host = lab.host(name)?;
            switch.connect(&host, "eth0", None)?;
            host.address("eth0", address)?;
            Ok(host)
        };
        let attacked = host("attacked", "10.1.0.1/16")?;
        let honest = host("honest", "10.1.0.2/16")?;
        let attacker = host("attacker", "10.1.1.1/16")?;
        attacked.ip(&["route", "add", "10.3.0.0/16", "via", "10.1.1.1"])?;
        attacker.ip(&["route", "add", "local", "10.3.0.0/16", "dev", "lo"])?;
        let program = start(&attacked, &lab.targets())?;
        let runtime = honest.inside(|| Runtime::new(Some(1)))?;
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self {
            attacked: program,
            attacker,
            honest,
            runtime,
            _host: attacked,
            _switch: switch,
            newcomers: 0,
        })
    }

    /// Connects a client at an address of its own.
    fn client(&self, address: [u8; 4]) -> Result<Honest, String> {
        let nid = Nid::of_ip(Net::TCP, address.into());
        let ip = nid.ip().ok_or("a NID of TCP has an address")?;
        self.honest.address("eth0", &format!("{ip}/16"))?;
        let mut options = Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        options.nis.push(NiOptions { conns_per_peer: 1, ..NiOptions::at(ip) });
        self.honest.inside(|| {
            let node = Node::start(&self.runtime, options).map_err(|error| error.to_string())?;
            Honest::connect(node, super::stage::nid(ATTACKED), &format!("honest-{ip}"))
        })?
    }

    /// Starts to repeat `work` as a client.
    fn worker(
        &self,
        address: [u8; 4],
        work: impl FnMut(&mut Honest, u32) -> Result<Duration, String> + Send + 'static,
    ) -> Result<Worker, String> {
        let client = self.client(address)?;
        self.honest.inside(|| Worker::start(client, work))
    }

    /// Starts the client whose service is measured.
    fn working(&self) -> Result<Worker, String> {
        self.worker([10, 1, 0, 3], |client, round| {
            let begun = Instant::now();
            client.statfs()?;
            if round % PINGS == 0 {
                client.ping()?;
            }
            client.lock(OWN)?;
            Ok(begun.elapsed())
        })
    }

    /// Starts the client that wants the lock which attackers hold.
    fn waiting(&self) -> Result<Worker, String> {
        self.worker([10, 1, 0, 4], |client, _| {
            std::thread::sleep(Duration::from_millis(20));
            client.lock(CONTESTED)
        })
    }

    /// Returns the seconds until a new client is connected and served.
    fn newcomer(&mut self) -> Result<f64, String> {
        self.newcomers += 1;
        let begun = Instant::now();
        let client = self.client([10, 1, 2, self.newcomers])?;
        client.statfs()?;
        let took = begun.elapsed();
        client.end()?;
        if took > NEWCOMER_MAX {
            Err(format!("a new client was served after {} s", took.as_secs()))
        } else {
            Ok(took.as_secs_f64())
        }
    }

    fn attack(&self, lab: &Lab, name: &str, seed: u64) -> Result<Program, String> {
        let orders = Orders {
            attack: name.to_owned(),
            target: nid(ATTACKED),
            behind: None,
            victims: Vec::new(),
            seed,
        };
        let orders = serde_json::to_string(&orders).expect("orders are plain");
        Program::start(self.attacker.command(&lab.attacker()).args(["attack", &orders]))
    }

    /// Returns what the targets keep. Their program checks its invariants first.
    fn kept(&mut self) -> Result<TargetState, String> {
        self.attacked.write_line("kept")?;
        let line = self.attacked.wait_for("kept ")?;
        serde_json::from_str(&line["kept ".len()..]).map_err(|error| format!("{line}: {error}"))
    }

    /// Waits until nothing is left of attackers and clients. Clients that have not disconnected are
    /// evicted, as an administrator does.
    fn cleared(&mut self) -> Result<f64, String> {
        let begun = Instant::now();
        loop {
            self.attacked.write_line("evict")?;
            let kept = self.kept()?;
            let connections = connections(self.attacked.id())?;
            let is_clear = (kept.exports, kept.locks, kept.moving) == (0, 0, 0);
            if is_clear && kept.busy.is_none() && connections == 0 {
                return Ok(begun.elapsed().as_secs_f64());
            }
            if begun.elapsed() > AFTER_MAX {
                return Err(format!("{connections} connections with attackers, and {kept:?}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Adds the last lines of the log to the description of a failure.
    fn explain(&mut self, why: &str) -> String {
        let log = self.attacked.new_lines();
        let last = &log[log.len().saturating_sub(20)..];
        format!("{}\nlog of the targets:\n  {}", why.trim(), last.join("\n  "))
    }
}

/// Starts the targets.
fn start(host: &Host, program: &Path) -> Result<Program, String> {
    let (locks, timeout) = (LOCK_TIMEOUT.to_string(), TIMEOUT.to_string());
    let mut targets = Program::start(host.command(program).args([
        "10.1.0.1",
        "lv",
        "10.1.0.9@tcp",
        "--quiet",
        "--lock-timeout",
        &locks,
        "--timeout",
        &timeout,
    ]))?;
    targets.wait_for("serving")?;
    Ok(targets)
}

/// Runs a mix against targets.
pub(super) fn mix(lab: &Lab, mix: &Mix, duration: Duration) -> Result<MixReport, String> {
    let mut targets = Targets::new(lab)?;
    let survived = survives(lab, &mut targets, mix, duration);
    survived.map_err(|why| format!("{mix}: {}", targets.explain(&why)))
}

fn survives(
    lab: &Lab,
    targets: &mut Targets,
    mix: &Mix,
    duration: Duration,
) -> Result<MixReport, String> {
    let watch = Watch::new(targets.attacked.id());
    let (working, waiting) = (targets.working()?, targets.waiting()?);
    let mut rng = Rng::new(mix.seed);
    let mut attackers = Vec::new();
    for attack in &mix.attacks {
        attackers.push(targets.attack(lab, attack.name, rng.u64())?);
    }
    for attacker in &mut attackers {
        attacker.wait_for("ready")?;
    }
    let begun = Instant::now();
    let mut newcomer_s = 0.0_f64;
    while begun.elapsed() < duration {
        newcomer_s = newcomer_s.max(targets.newcomer()?);
        std::thread::sleep(Duration::from_millis(500));
    }
    for attacker in attackers {
        Stage::end(attacker)?;
    }
    working.end()?;
    let (locks, longest) = waiting.end()?;
    if locks == 0 || longest > GRANT_MAX {
        return Err(format!("{locks} locks were granted, the last after {longest:?}"));
    }
    let after_s = targets.cleared()?;
    let rss_mib = watch.finish();
    if rss_mib > RSS_MAX_MIB {
        return Err(format!("the targets took {rss_mib:.0} MiB, more than {RSS_MAX_MIB}"));
    }
    Ok(MixReport { rss_mib, newcomer_s, after_s })
}

/// Runs an attack against targets, and measures the service of an honest client.
pub(super) fn measure(
    lab: &Lab,
    attack: &'static Attack,
    seed: u64,
) -> Result<AttackReport, String> {
    let mut targets = Targets::new(lab)?;
    let measured = during(lab, &mut targets, attack, seed);
    measured.map_err(|why| format!("{}: {}", attack.name, targets.explain(&why)))
}

fn during(
    lab: &Lab,
    targets: &mut Targets,
    attack: &'static Attack,
    seed: u64,
) -> Result<AttackReport, String> {
    let watch = Watch::new(targets.attacked.id());
    let (working, waiting) = (targets.working()?, targets.waiting()?);
    let begun = Instant::now();
    std::thread::sleep(WINDOW);
    let (alone, _) = working.since(begun);
    let mut attacker = targets.attack(lab, attack.name, seed)?;
    attacker.wait_for("ready")?;
    let begun = Instant::now();
    std::thread::sleep(WINDOW);
    let (beside, p99) = working.since(begun);
    let newcomer_s = targets.newcomer()?;
    let tally: Tally = Stage::end(attacker)?;
    let mut trouble = Vec::new();
    let (locks, longest) = waiting.end()?;
    if locks == 0 || longest > GRANT_MAX {
        trouble.push(format!("{locks} contested locks, the last after {longest:?}"));
    }
    trouble.extend(working.end().err());
    let kept = targets.kept()?;
    eprintln!("{}: {kept:?}, longest wait for a lock {longest:?}", attack.name);
    let after_s = targets.cleared()?;
    Ok(AttackReport {
        attack: attack.name,
        ping_p99_ms: p99.as_secs_f64() * 1e3,
        lst_share: beside as f64 / alone.max(1) as f64,
        rss_mib: watch.finish(),
        after_s,
        newcomer_s,
        hijacked: tally.hijacked,
        tally,
        trouble,
    })
}
