//! One rail is cut under load, and comes back.

use std::thread::sleep;
use std::time::Duration;

use super::{Nets, RAILS, Rails, series};
use crate::lab::{Lab, Load, Lst, LstReport, Meter, Node, Rate, Server};
use crate::traffic::{Outcome, Served, now_ms};

/// How a rail is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The interface of the node that loads goes down, so that its kernel knows.
    LinkDown,
    /// The port of the other node loses everything, and nobody is told.
    Silence,
}

/// How it is tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// How the rails are arranged.
    pub nets: Nets,
    /// How one is cut.
    pub cut: Cut,
    /// What each carries.
    pub rate: Rate,
    /// How long the rail is cut.
    pub cut_for: Duration,
}

/// When what was carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Bytes per second over one rail that nobody cuts.
    pub one: f64,
    /// Over both, before the cut.
    pub both: f64,
    /// From a second after the cut to the rail's return.
    pub while_cut: f64,
    /// Seconds from the cut to [`FULL`] of one rail; `None` if it did not come to that.
    pub recovered: Option<f64>,
    /// Seconds from the rail's return to [`BOTH`] of one rail; `None` if it did not come to that.
    pub returned: Option<f64>,
}

/// What counts as the full speed of one rail, and as the use of both.
pub const FULL: f64 = 0.9;
/// See [`FULL`].
pub const BOTH: f64 = 1.6;

/// The rail that is cut. It has the primary NIDs, which is worse.
const VICTIM: usize = 0;
/// How long it is watched before the cut, and after the return.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(8);
/// How often counters are read.
const GLANCE: Duration = Duration::from_millis(20);

impl Trial {
    /// Cuts a rail by taking its link down, with the usual rates.
    pub fn new(nets: Nets, cut: Cut) -> Self {
        // What was on its way when the rail was cut arrives after TCP has tried again, which takes
        // up to as long again as the cut; silence is found out in a few seconds.
        let cut_for = Duration::from_secs(if cut == Cut::Silence { 10 } else { 4 });
        Self { nets, cut, rate: Rate::megabits(1000), cut_for }
    }

    fn set(&self, rails: &Rails, cut: bool) -> Result<(), String> {
        match self.cut {
            Cut::LinkDown => rails.host(0).set_link(RAILS[VICTIM], !cut),
            Cut::Silence => rails.switch(VICTIM).set_silent(rails.host(1), RAILS[VICTIM], cut),
        }
    }

    /// Cuts and restores while `wait` lets time pass; returns when, in milliseconds.
    fn run(
        &self,
        rails: &Rails,
        mut wait: impl FnMut(Duration) -> Result<(), String>,
    ) -> Result<[u64; 2], String> {
        let cut_at = now_ms();
        self.set(rails, true)?;
        wait(self.cut_for)?;
        let back_at = now_ms();
        self.set(rails, false)?;
        wait(AFTER)?;
        Ok([cut_at, back_at])
    }
}

impl Course {
    fn of(series: &[series::Point], one: f64, [cut_at, back_at]: [u64; 2]) -> Self {
        let end = series.last().map_or(back_at, |(at, _)| *at);
        let rate = |from, to| series::rate(series, from, to).unwrap_or(0.0);
        Self {
            one,
            both: rate(cut_at.saturating_sub(BEFORE.as_millis() as u64), cut_at),
            while_cut: rate(cut_at + 1000, back_at),
            recovered: series::reached(series, (cut_at, back_at), FULL * one),
            returned: series::reached(series, (back_at, end), BOTH * one),
        }
    }
}

/// Cuts a rail under 64 PUTs and GETs of every length.
///
/// # Errors
/// If it cannot be tried. Messages that failed are in the outcome.
pub fn under_messages(lab: Lab, trial: &Trial) -> Result<(Course, Outcome, Served), String> {
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
        load.rate(BEFORE)?
    };
    let (server, mut load) = start([&rails.nids(0), &rails.nids(1)])?;
    load.run_for(Duration::from_secs(1) + BEFORE);
    let times = trial.run(&rails, |duration| {
        load.run_for(duration);
        Ok(())
    })?;
    let (outcome, samples) = load.finish()?;
    let course = Course::of(&series::of(&samples), one, times);
    Ok((course, outcome, server.finish()?))
}

/// Cuts a rail under `lst`, which writes with all its data checked. What passes is what the kernel
/// counts at the interfaces; one rail is the other one before the cut.
///
/// # Errors
/// If it cannot be tried. RPCs that failed are in the report.
pub fn under_lst(lab: Lab, trial: &Trial) -> Result<(Course, LstReport), String> {
    let rails = Rails::new(lab, trial.nets, &["a", "b"], trial.rate)?;
    let settings = rails.settings(&[0, 1]);
    let a = Node::start(rails.lab(), rails.host(0), &settings)?;
    let b = Node::start(rails.lab(), rails.host(1), &settings)?;
    let meter = Meter::new(rails.host(0))?;
    let (mut points, mut other) = (Vec::new(), Vec::new());
    let mut watch = |duration: Duration| -> Result<(), String> {
        let until = now_ms() + duration.as_millis() as u64;
        while now_ms() < until {
            let sent = |rail: usize| meter.read(RAILS[rail]).map(|carried| carried.sent);
            let (at, sent) = (now_ms(), [sent(VICTIM)?, sent(1 - VICTIM)?]);
            points.push((at, sent[0] + sent[1]));
            other.push((at, sent[1]));
            sleep(GLANCE);
        }
        Ok(())
    };
    let seconds = (BEFORE + trial.cut_for + AFTER).as_secs_f64() + 1.0;
    let lst = Lst::new(&rails.nid(0, 0), &rails.nid(1, 0), "brw write check=full", seconds);
    let running = lst.start(&a)?;
    watch(Duration::from_secs(2) + BEFORE)?;
    let times = trial.run(&rails, |duration| {
        watch(duration / 2)?;
        a.check().and_then(|()| b.check())?;
        watch(duration / 2)
    })?;
    let before = (times[0] - BEFORE.as_millis() as u64, times[0]);
    let one = series::rate(&other, before.0, before.1).unwrap_or(0.0);
    let report = running.finish()?;
    a.rest().and_then(|()| b.rest())?;
    Ok((Course::of(&points, one, times), report))
}
