//! Several attacks at once, chosen by a seed, and bounds that do not depend on the machine's speed.

use std::fmt;
use std::time::{Duration, Instant};

use fulmar_base::Rng;

use super::memory::{NodeUsage, Watch};
use super::service::{Pinger, newcomer};
use super::stage::{Stage, VICTIMS};
use super::{ATTACKS, Attack, Setup, targets};
use crate::lab::Lab;

/// Attacks at once against one node.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The seed of this mix and of its attackers.
    pub seed: u64,
    /// The configuration of the attacked node.
    pub setup: Setup,
    /// The attacks.
    pub attacks: Vec<&'static Attack>,
}

/// A node after a mix of attacks that broke no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixReport {
    /// The largest resident memory, in MiB.
    pub rss_mib: f64,
    /// The longest time until a new node had an answer, in seconds.
    pub newcomer_s: f64,
    /// Seconds after the attacks until nothing was left of them.
    pub after_s: f64,
}

/// No more attackers at once, so that those of a machine with two cores do not only wait.
const ATTACKS_MAX: u64 = 3;
/// How long the attacked node waits for answers, in seconds: what is left stays as long.
const TIMEOUT: u32 = 10;
pub(super) const RSS_MAX_MIB: f64 = 512.0;
/// How long what is left of the attacks may stay.
const AFTER_MAX: Duration = Duration::from_secs(120);
/// New nodes come this long after the last one had its answer.
const NEWCOMERS: Duration = Duration::from_secs(1);

impl Mix {
    /// Chooses attacks, among those with one of these names.
    pub fn new(seed: u64, only: &[&str]) -> Self {
        let mut rng = Rng::new(seed);
        let known = |attack: &&Attack| only.is_empty() || only.contains(&attack.name);
        let all: Vec<&'static Attack> = ATTACKS.iter().filter(known).collect();
        let first = all[rng.below(all.len() as u64) as usize];
        let setup = first.setup;
        let others: Vec<_> = all.into_iter().filter(|attack| attack.fits(setup)).collect();
        let mut attacks = vec![first];
        for _ in 0..rng.below(ATTACKS_MAX) {
            attacks.push(others[rng.below(others.len() as u64) as usize]);
        }
        Self { seed, setup, attacks }
    }

    /// Returns mixes with each of these attacks once.
    pub fn of_all(seed: u64, only: impl Fn(&Attack) -> bool) -> Vec<Self> {
        let mut rng = Rng::new(seed);
        let mut left: Vec<&'static Attack> = ATTACKS.iter().filter(|attack| only(attack)).collect();
        let mut mixes = Vec::new();
        while let Some(first) = left.first() {
            let setup = first.setup;
            let mut attacks = Vec::new();
            while attacks.len() < ATTACKS_MAX as usize {
                let fits = |at: &usize| left[*at].setup == setup;
                let places: Vec<usize> = (0..left.len()).filter(fits).collect();
                if places.is_empty() {
                    break;
                }
                attacks.push(left.remove(places[rng.below(places.len() as u64) as usize]));
            }
            mixes.push(Self { seed, setup, attacks });
        }
        mixes
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.attacks.iter().map(|attack| attack.name).collect();
        write!(f, "seed {}: {} ({:?})", self.seed, names.join(" + "), self.setup)
    }
}

/// Runs a mix for some time against a new node.
///
/// # Errors
/// The bound that was broken.
pub fn mix(lab: &Lab, mix: &Mix, duration: Duration) -> Result<MixReport, String> {
    if mix.setup == Setup::Targets {
        return targets::mix(lab, mix, duration);
    }
    let mut stage = Stage::new(lab, mix.setup, Some(TIMEOUT))?;
    let pinger = Pinger::start(&stage)?;
    let survived = survives(lab, &stage, &pinger, mix, duration);
    drop(pinger);
    survived.map_err(|why| format!("{mix}: {}", stage.explain(&why)))
}

fn survives(
    lab: &Lab,
    stage: &Stage,
    pings: &Pinger,
    mix: &Mix,
    duration: Duration,
) -> Result<MixReport, String> {
    let watch = Watch::new(stage.attacked.id());
    let mut rng = Rng::new(mix.seed);
    let mut attackers = Vec::new();
    for attack in &mix.attacks {
        attackers.push(stage.attack(lab, attack.name, rng.u64())?);
    }
    for attacker in &mut attackers {
        attacker.wait_for("ready")?;
    }
    let begun = Instant::now();
    let mut newcomer_s = 0.0_f64;
    while begun.elapsed() < duration {
        let took = newcomer(stage)?.ok_or("a new node had no answer in 30 s")?;
        newcomer_s = newcomer_s.max(took);
        std::thread::sleep(NEWCOMERS.min(duration.saturating_sub(begun.elapsed())));
    }
    for attacker in attackers {
        let hijacked = Stage::end(attacker)?.hijacked;
        if hijacked > 0 {
            return Err(format!("{hijacked} messages for others came to the attacker"));
        }
    }
    let ended = Instant::now();
    pings.pause(true);
    stage.attacked.check()?;
    while let Some(why) = left(stage) {
        if ended.elapsed() > AFTER_MAX {
            let after = AFTER_MAX.as_secs();
            return Err(format!("{after} s after the attacks: {why}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let after_s = ended.elapsed().as_secs_f64();
    let rss_mib = watch.finish();
    if rss_mib > RSS_MAX_MIB {
        return Err(format!("the node took {rss_mib:.0} MiB, more than {RSS_MAX_MIB}"));
    }
    Ok(MixReport { rss_mib, newcomer_s, after_s })
}

/// Returns what is left of the attacks.
fn left(stage: &Stage) -> Option<String> {
    for victim in VICTIMS.as_flattened() {
        if let Err(why) = stage.reach(victim) {
            return Some(format!("{victim} cannot be reached: {why}"));
        }
    }
    match NodeUsage::of(&stage.attacked) {
        Ok(kept) => {
            let idle = || stage.attacked.run("lnetctl debug check --idle --timeout 1").err();
            // The node's own check says what the messages are.
            kept.left().map(|left| left + "; " + &idle().unwrap_or_default()).or_else(idle)
        }
        Err(why) => Some(why),
    }
}
