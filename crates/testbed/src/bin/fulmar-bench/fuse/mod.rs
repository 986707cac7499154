//! The family `fuse`: `fulmar mount` beside other file systems for networks, each with warm servers over
//! loopback whose directories are in memory.
//!
//! Fulmar has an MGS with an MDT, and two OSTs. A system is mounted anew for each trial, so that what is
//! measured comes from its servers. What the others are, and how they are set up, is in `peers`.

mod file_system;
mod load;
mod ours;
mod peers;

use std::path::Path;

use fulmar_testbed::lab::not_run;

use crate::ost::Scratch;
use crate::report::{Bar, Figure};
use crate::stats::Series;
use crate::{Effort, Failure};

pub(crate) use file_system::Mount;
use file_system::{FileSystem, Trial};
pub(crate) use load::{Load, run as run_load};
use ours::Ours;

/// A file of 2 GiB is written in blocks of 1 MiB, and synced.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Write, "fuse.write_2g")
}

/// The same file is read by a client that has nothing of it.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Read, "fuse.read_2g")
}

/// `ls -l` of a directory with 10,000 files, by a client that has nothing of it.
pub(crate) fn list(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::List, "fuse.ls_10000")
}

/// `tar` unpacks a tree of sources.
pub(crate) fn untar(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Untar, "fuse.untar")
}

/// Blocks of 4 KiB are read at random places, one after the other, by a client that has nothing of them.
pub(crate) fn random(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Random, "fuse.random_4k")
}

/// Measures all systems alternately.
fn measure(effort: Effort, load: Load, name: &str) -> Result<Vec<Figure>, Failure> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        not_run("mounts: they need root and /dev/fuse: run them with sudo");
        return Ok(Vec::new());
    }
    let scratch = Scratch::new()?;
    let mut systems =
        vec![FileSystem::new(Box::new(Ours::start(&scratch.0.join("fulmar"))?), &scratch.0)];
    for (name, start) in peers::ALL {
        match start(&scratch.0.join(name)) {
            Ok(peer) => systems.push(FileSystem::new(peer, &scratch.0)),
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
    let names: Vec<&str> = systems.iter().map(FileSystem::name).collect();
    Ok(figures(load, name, &names, &trials))
}

/// What Fulmar, the first system, does in a second beside the best of the others, and what each of them does; and the
/// processor seconds of clients and servers, where a large file is moved.
fn figures(load: Load, name: &str, systems: &[&str], trials: &[Vec<Trial>]) -> Vec<Figure> {
    let series = |value: &dyn Fn(&Trial) -> f64| -> Vec<Series> {
        trials.iter().map(|trials| Series::new(trials.iter().map(value))).collect()
    };
    let rates = series(&|one| one.rate);
    let cpu = load.is_large().then(|| series(&|one| one.cpu / load.gigabytes()));
    let best = (1..rates.len()).max_by(|a, b| rates[*a].median().total_cmp(&rates[*b].median()));
    let beside = |figure: Figure, of: &[Series]| match best {
        Some(best) => figure.beside_median(&of[best]),
        None => figure,
    };
    let rate = Figure::median(format!("{name}.rate"), &rates[0], load.unit());
    let mut figures = vec![beside(rate, &rates)];
    if let Some(cpu) = &cpu {
        figures.push(beside(Figure::median(format!("{name}.cpu"), &cpu[0], "s/GB"), cpu));
    }
    if let Some(best) = best {
        eprintln!("  the best peer is {}", systems[best]);
        let ratio = Figure::ratio(format!("{name}.vs_best_peer"), &rates[0], &rates[best]);
        figures.push(ratio.held_to(Bar::AtLeast(1.0)));
    }
    for (place, system) in systems.iter().enumerate().skip(1) {
        let rate = format!("{name}.{system}_rate");
        figures.push(Figure::median(rate, &rates[place], load.unit()));
        if let Some(cpu) = &cpu {
            figures.push(Figure::median(format!("{name}.{system}_cpu"), &cpu[place], "s/GB"));
        }
    }
    figures
}
