//! One attack, and the service that honest nodes get during it and after it.

use std::time::{Duration, Instant};

use fulmar_text::{Table, left, right, significant};

use super::memory::{NodeUsage, Watch};
use super::service::{Pinger, newcomer};
use super::stage::{HONEST, Stage, VICTIMS, nid};
use super::{Attack, Setup, Tally, targets};
use crate::lab::{Lab, Lst};

/// The figures of one attack.
#[derive(Clone, Debug)]
pub struct AttackReport {
    /// Name of the attack.
    pub attack: &'static str,
    /// The 99th percentile of the time of a ping, in milliseconds; with targets, of a few requests
    /// of a client.
    pub ping_p99_ms: f64,
    /// The throughput of `lst`, as a share of that without the attack; with targets, the rate of
    /// those requests.
    pub lst_share: f64,
    /// The largest resident memory of the attacked node, in MiB.
    pub rss_mib: f64,
    /// Seconds from the end of the attack until everything is as before.
    pub after_s: f64,
    /// Seconds until a new node has an answer.
    pub newcomer_s: f64,
    /// Messages for others that the attacker received.
    pub hijacked: u64,
    /// What the attacker counted.
    pub tally: Tally,
    /// What went wrong, in words.
    pub trouble: Vec<String>,
}

/// How long `lst` is measured, and how long pings are.
const WINDOW: Duration = Duration::from_millis(1500);
/// How long `lst` runs before; the attack begins after half of it.
const WARM_UP: Duration = Duration::from_millis(1400);
/// The service after the attack must return within this time.
const AFTER_MAX: Duration = Duration::from_secs(60);
/// Memory after the attack, more than before, that counts as returned.
const REST_MIB: f64 = 64.0;
/// The time of a ping on a node that is well.
const PING_MS: f64 = 50.0;

/// Runs an attack against a new node.
///
/// # Errors
/// Why it cannot be measured, or that the node has died.
pub fn measure(lab: &Lab, attack: &'static Attack, seed: u64) -> Result<AttackReport, String> {
    if attack.setup == Setup::Targets {
        return targets::measure(lab, attack, seed);
    }
    let mut stage = Stage::new(lab, attack.setup, None)?;
    let pinger = Pinger::start(&stage)?;
    let measured = during(lab, &stage, &pinger, attack, seed);
    drop(pinger);
    measured.map_err(|why| format!("{}: {}", attack.name, stage.explain(&why)))
}

fn lst(stage: &Stage, seconds: f64, warmup: f64) -> Lst {
    let lst = Lst::new(&format!("{}", nid(HONEST)), stage.served(), "brw write", seconds);
    Lst { warmup, ..lst }
}

fn during(
    lab: &Lab,
    stage: &Stage,
    pings: &Pinger,
    attack: &'static Attack,
    seed: u64,
) -> Result<AttackReport, String> {
    let mut trouble = Vec::new();
    let alone = lst(stage, 1.0, 0.4).run(&stage.honest)?.rate()?;
    pings.pause(true);
    let before = NodeUsage::of(&stage.attacked)?;
    pings.pause(false);
    let watch = Watch::new(stage.attacked.id());
    // The session exists before the attack: a node has one at a time.
    let running = lst(stage, WINDOW.as_secs_f64(), WARM_UP.as_secs_f64()).start(&stage.honest)?;
    std::thread::sleep(WARM_UP / 2);
    let mut attacker = stage.attack(lab, attack.name, seed)?;
    attacker.wait_for("ready")?;
    let report = running.finish();
    let rate = report.and_then(|report| {
        if report.total.errors > 0 || !report.failed.is_empty() {
            trouble.push(format!("lst: {} errors, {:?}", report.total.errors, report.failed));
        }
        report.total.bytes_per_second.ok_or_else(|| "lst reported no rate".to_owned())
    });
    let rate = rate.unwrap_or_else(|why| {
        trouble.push(why);
        0.0
    });
    let begun = Instant::now();
    let newcomer_s = newcomer(stage)?;
    std::thread::sleep(WINDOW.saturating_sub(begun.elapsed()));
    let ping_p99_ms = pings.p99_ms(begun);
    let tally = Stage::end(attacker)?;
    let (after_s, left) = after(stage, pings, &before)?;
    trouble.extend(left);
    let rss_mib = watch.finish();
    trouble.extend(stage.attacked.check().err());
    if newcomer_s.is_none() {
        trouble.push("a newcomer had no answer in 30 s".into());
    }
    Ok(AttackReport {
        attack: attack.name,
        ping_p99_ms,
        lst_share: rate / alone,
        rss_mib,
        after_s,
        newcomer_s: newcomer_s.unwrap_or(30.0),
        hijacked: tally.hijacked,
        tally,
        trouble,
    })
}

/// Returns the seconds until the service and the memory are as before, and what is not.
fn after(
    stage: &Stage,
    pings: &Pinger,
    before: &NodeUsage,
) -> Result<(f64, Option<String>), String> {
    let begun = Instant::now();
    loop {
        match differs(stage, pings, before) {
            None => return Ok((begun.elapsed().as_secs_f64(), None)),
            Some(why) if begun.elapsed() > AFTER_MAX => {
                return Ok((AFTER_MAX.as_secs_f64(), Some(format!("after the attack: {why}"))));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn differs(stage: &Stage, pings: &Pinger, before: &NodeUsage) -> Option<String> {
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(100));
    let p99 = pings.p99_ms(begun);
    if p99 > PING_MS {
        return Some(format!("a ping takes {p99:.0} ms"));
    }
    for victim in VICTIMS.as_flattened() {
        if let Err(why) = stage.reach(victim) {
            return Some(format!("{victim} cannot be reached: {why}"));
        }
    }
    pings.pause(true);
    let kept = NodeUsage::of(&stage.attacked);
    pings.pause(false);
    match kept {
        Err(why) => Some(why),
        Ok(kept) if kept.rss_mib > before.rss_mib + REST_MIB => {
            Some(format!("{:.0} MiB, {:.0} before", kept.rss_mib, before.rss_mib))
        }
        Ok(kept) => kept.left(),
    }
}

/// Returns a table of all figures.
pub fn table(all: &[AttackReport]) -> String {
    let mut table = Table::new([
        left("attack"),
        right("ping p99 ms"),
        right("lst share"),
        right("RSS MiB"),
        right("after s"),
        right("newcomer s"),
        right("hijacked"),
        right("opened"),
        right("refused"),
        right("sent"),
    ]);
    for one in all {
        let number = |value: f64| significant(value, 3);
        let Tally { opened, refused, sent, .. } = one.tally;
        table.row([
            one.attack.to_owned(),
            number(one.ping_p99_ms),
            number(one.lst_share),
            number(one.rss_mib),
            number(one.after_s),
            number(one.newcomer_s),
            one.hijacked.to_string(),
            opened.to_string(),
            refused.to_string(),
            sent.to_string(),
        ]);
    }
    let trouble = all.iter().flat_map(|one| {
        one.trouble.iter().map(|what| format!("{}: {}\n", one.attack, what.trim()))
    });
    format!("{table}{}", trouble.collect::<String>())
}
