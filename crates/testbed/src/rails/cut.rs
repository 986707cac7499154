//! One rail is cut under load and restored.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Nets, RAILS, Rails, series};
use crate::lab::{Lab, Load, Lst, LstReport, Meter, Rate, Server};
use crate::traffic::{Outcome, ServerReport, now_ms};

/// How a rail is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The interface of the sending node is taken down, which its kernel reports.
    LinkDown,
    /// The port of the other node silently loses all packets.
    Silence,
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The networks of the rails.
    pub nets: Nets,
    /// How one of them is cut.
    pub cut: Cut,
    /// The rate of each rail.
    pub rate: Rate,
    /// Observation time before the cut.
    pub before: Duration,
    /// Duration of the cut.
    pub cut_for: Duration,
    /// Observation time after the rail is restored.
    pub after: Duration,
    /// How many bytes are carried before the rail is restored, however long that takes, up to a minute.
    pub carried_min: u64,
}

/// The rates before, during and after the cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Bytes per second over one intact rail.
    pub one: f64,
    /// Bytes per second over both, before the cut.
    pub both: f64,
    /// Bytes per second from a second after the cut until the rail is restored.
    pub while_cut: f64,
    /// Bytes in that time.
    pub carried: u64,
    /// Seconds from the cut to [`FULL`] of one rail; `None` if that rate was not reached.
    pub recovered: Option<f64>,
    /// Seconds from the restoration to [`BOTH`] of one rail; `None` if that rate was not reached.
    pub returned: Option<f64>,
}

/// Share of the rate of one rail that counts as its full rate, and share that counts as the use of
/// both.
pub const FULL: f64 = 0.9;
/// See [`FULL`].
pub const BOTH: f64 = 1.6;

/// The rail that is cut. It has the primary NIDs, which is the harder case.
const VICTIM: usize = 0;
/// The time after a cut in which what was on its way may arrive.
const SETTLES: Duration = Duration::from_secs(1);
/// The longest that a cut lasts.
const CUT_MAX: Duration = Duration::from_secs(60);
/// Interval between reads of counters.
const GLANCE: Duration = Duration::from_millis(20);

impl Trial {
    /// Returns the experiment with the usual rates and times.
    pub fn new(nets: Nets, cut: Cut) -> Self {
        // Messages in flight arrive when TCP retransmits, which may take as long again as the cut.
        // Silent loss is detected after a few seconds.
        let cut_for = Duration::from_secs(if cut == Cut::Silence { 10 } else { 4 });
        let (before, after) = (Duration::from_secs(3), Duration::from_secs(8));
        let (rate, carried_min) = (Rate::megabits(1000), 0);
        Self { nets, cut, rate, before, cut_for, after, carried_min }
    }

    fn set(&self, rails: &Rails, cut: bool) -> Result<(), String> {
        match self.cut {
            Cut::LinkDown => rails.host(0).set_link(RAILS[VICTIM], !cut),
            Cut::Silence => rails.switch(VICTIM).set_silent(rails.host(1), RAILS[VICTIM], cut),
        }
    }

    /// Cuts and restores the rail; returns the two times in milliseconds. `wait` waits, and returns the bytes that were
    /// carried so far.
    fn run(
        &self,
        rails: &Rails,
        mut wait: impl FnMut(Duration) -> Result<u64, String>,
    ) -> Result<[u64; 2], String> {
        let (begun, cut_at) = (Instant::now(), now_ms());
        self.set(rails, true)?;
        let first = wait(SETTLES)?;
        let mut last = wait(self.cut_for.saturating_sub(SETTLES))?;
        while last - first < self.carried_min && begun.elapsed() < CUT_MAX {
            last = wait(Duration::from_millis(100))?;
        }
        let back_at = now_ms();
        self.set(rails, false)?;
        wait(self.after)?;
        Ok([cut_at, back_at])
    }
}

impl Course {
    fn of(trial: &Trial, series: &[series::Point], one: f64, [cut_at, back_at]: [u64; 2]) -> Self {
        let end = series.last().map_or(back_at, |(at, _)| *at);
        let rate = |from, to| series::rate(series, from, to).unwrap_or(0.0);
        let settled = cut_at + SETTLES.as_millis() as u64;
        Self {
            one,
            both: rate(cut_at.saturating_sub(trial.before.as_millis() as u64), cut_at),
            while_cut: rate(settled, back_at),
            carried: series::carried(series, settled, back_at),
            recovered: series::reached(series, (cut_at, back_at), FULL * one),
            returned: series::reached(series, (back_at, end), BOTH * one),
        }
    }
}

/// Cuts a rail under 64 PUTs and GETs of every length.
///
/// # Errors
/// Fails if the experiment fails. Failed messages are in the outcome.
pub fn under_messages(lab: Lab, trial: &Trial) -> Result<(Course, Outcome, ServerReport), String> {
    let rails = Rails::new(lab, trial.nets, &["a", "b"], trial.rate)?;
    let endpoint = |nids: &str| format!("--nid {nids}");
    let start = |nids: [&str; 2]| -> Result<(Server, Load), String> {
        let server = Server::start(rails.lab(), rails.host(1), &endpoint(nids[1]))?;
        let to = rails.nid(1, 0);
        let words = format!("{} --to {to} --window 64", endpoint(nids[0]));
        Ok((server, Load::start(rails.lab(), rails.host(0), &words)?))
    };
    let one = {
        let (_server, mut load) = start([&rails.nid(0, 0), &rails.nid(1, 0)])?;
        load.run_for(Duration::from_secs(1));
        load.rate(trial.before)?
    };
    let (server, mut load) = start([&rails.nids(0), &rails.nids(1)])?;
    load.run_for(Duration::from_secs(1) + trial.before);
    let times = trial.run(&rails, |duration| {
        load.run_for(duration);
        Ok(load.samples().last().map_or(0, |sample| sample.bytes))
    })?;
    let (outcome, samples) = load.finish()?;
    let course = Course::of(trial, &series::of(&samples), one, times);
    Ok((course, outcome, server.finish()?))
}

/// Cuts a rail under `lst`, which writes and checks all data. Rates come from the kernel counters
/// of the interfaces; the rate of one rail is that of the other one before the cut.
///
/// # Errors
/// Fails if the experiment fails. Failed RPCs are in the report.
pub fn under_lst(lab: Lab, trial: &Trial) -> Result<(Course, LstReport), String> {
    let rails = Rails::new(lab, trial.nets, &["a", "b"], trial.rate)?;
    let settings = rails.settings(&[0, 1]);
    let a = rails.lab().node(rails.host(0), &settings)?;
    let b = rails.lab().node(rails.host(1), &settings)?;
    let meter = Meter::new(rails.host(0))?;
    let (mut points, mut other) = (Vec::new(), Vec::new());
    let mut watch = |duration: Duration| -> Result<u64, String> {
        let until = now_ms() + duration.as_millis() as u64;
        while now_ms() < until {
            let sent = |rail: usize| meter.read(RAILS[rail]).map(|carried| carried.sent);
            let (at, sent) = (now_ms(), [sent(VICTIM)?, sent(1 - VICTIM)?]);
            points.push((at, sent[0] + sent[1]));
            other.push((at, sent[1]));
            sleep(GLANCE);
        }
        Ok(points.last().map_or(0, |(_, total)| *total))
    };
    let seconds = (trial.before + trial.cut_for + trial.after).as_secs_f64() + 1.0;
    let lst = Lst::new(&rails.nid(0, 0), &rails.nid(1, 0), "brw write check=full", seconds);
    let running = lst.start(&a)?;
    watch(Duration::from_secs(2) + trial.before)?;
    let times = trial.run(&rails, |duration| {
        watch(duration / 2)?;
        a.check().and_then(|()| b.check())?;
        watch(duration / 2)
    })?;
    let before = (times[0] - trial.before.as_millis() as u64, times[0]);
    let one = series::rate(&other, before.0, before.1).unwrap_or(0.0);
    let report = running.finish()?;
    a.check_idle().and_then(|()| b.check_idle())?;
    Ok((Course::of(trial, &points, one, times), report))
}
