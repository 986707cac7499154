//! The family `fuse`: `fulmar mount` beside other file systems for networks, each with warm servers over
//! loopback whose directories are in memory.
//!
//! Fulmar has an MGS with an MDT, and two OSTs. A system is mounted anew for each trial, so that what is
//! measured comes from its servers. What the others are, and how they are set up, is in `peers`.

mod load;
mod ours;
mod peers;
mod served;

use std::path::Path;

use fulmar_testbed::lab::not_run;

use crate::ost::Scratch;
use crate::report::{Bar, Figure};
use crate::stats::Series;
use crate::{Effort, Failure};

pub(crate) use load::{Load, run as run_load};
use ours::Ours;
use served::{Served, Trial};

/// The names of the figures of a load.
struct Names {
    /// What Fulmar does in a second, beside the best of the others.
    rate: &'static str,
    vs_best_peer: &'static str,
    /// Processor seconds of clients and servers, if they count.
    cpu: Option<&'static str>,
}

/// A file of 2 GiB is written in blocks of 1 MiB, and synced.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = Names {
        rate: "fuse.write_2g.rate",
        vs_best_peer: "fuse.write_2g.vs_best_peer",
        cpu: Some("fuse.write_2g.cpu"),
    };
    measure(effort, Load::Write, &names)
}

/// The same file is read by a client that has nothing of it.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = Names {
        rate: "fuse.read_2g.rate",
        vs_best_peer: "fuse.read_2g.vs_best_peer",
        cpu: Some("fuse.read_2g.cpu"),
    };
    measure(effort, Load::Read, &names)
}

/// `ls -l` of a directory with 10,000 files, by a client that has nothing of it.
pub(crate) fn list(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names =
        Names { rate: "fuse.ls_10000.rate", vs_best_peer: "fuse.ls_10000.vs_best_peer", cpu: None };
    measure(effort, Load::List, &names)
}

/// `tar` unpacks a tree of sources.
pub(crate) fn untar(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names =
        Names { rate: "fuse.untar.rate", vs_best_peer: "fuse.untar.vs_best_peer", cpu: None };
    measure(effort, Load::Untar, &names)
}

/// Blocks of 4 KiB are read at random places, one after the other, by a client that has nothing of them.
pub(crate) fn random(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = Names {
        rate: "fuse.random_4k.rate",
        vs_best_peer: "fuse.random_4k.vs_best_peer",
        cpu: None,
    };
    measure(effort, Load::Random, &names)
}

/// Measures all systems alternately.
fn measure(effort: Effort, load: Load, names: &Names) -> Result<Vec<Figure>, Failure> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        not_run("mounts: they need root and /dev/fuse: run them with sudo");
        return Ok(Vec::new());
    }
    let scratch = Scratch::new()?;
    let mut systems =
        vec![Served::new(Box::new(Ours::start(&scratch.0.join("fulmar"))?), &scratch.0)];
    for (name, start) in peers::ALL {
        match start(&scratch.0.join(name)) {
            Ok(peer) => systems.push(Served::new(peer, &scratch.0)),
            Err(why) => not_run(&format!("the peer {name}: {why}")),
        }
    }
    for system in &mut systems {
        system.prepare(load)?;
    }
    let mut trials: Vec<Vec<Trial>> = systems.iter().map(|_| Vec::new()).collect();
    for _ in 0..effort.repeats {
        for (system, trials) in systems.iter_mut().zip(&mut trials) {
            let trial = system.trial(load)?;
            eprintln!("  {}: {:.4} {}, {:.2} s", system.name(), trial.rate, load.unit(), trial.cpu);
            trials.push(trial);
        }
    }
    let rates: Vec<Series> =
        trials.iter().map(|trials| Series::new(trials.iter().map(|one| one.rate))).collect();
    let best = (1..rates.len()).max_by(|a, b| rates[*a].median().total_cmp(&rates[*b].median()));
    let mut figures = vec![Figure::median(names.rate, &rates[0], load.unit())];
    let cpu =
        |place: usize| Series::new(trials[place].iter().map(|one| one.cpu / load.gigabytes()));
    figures.extend(names.cpu.map(|name| Figure::median(name, &cpu(0), "s/GB")));
    if let Some(best) = best {
        eprintln!("  the best peer is {}", systems[best].name());
        figures[0] = figures[0].clone().beside_median(&rates[best]);
        if let Some(figure) = figures.get_mut(1) {
            *figure = figure.clone().beside_median(&cpu(best));
        }
        let ratio = Figure::ratio(names.vs_best_peer, &rates[0], &rates[best]);
        figures.push(ratio.held_to(Bar::AtLeast(1.0)));
    }
    Ok(figures)
}
