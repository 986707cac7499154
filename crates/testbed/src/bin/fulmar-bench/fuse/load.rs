//! What programs do in a mount.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use fulmar_base::Rng;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    Write,
    Read,
    List,
    Untar,
    Random,
}

/// The length of the large file, and of a block.
const FILE: u64 = 2 << 30;
const BLOCK: usize = 1 << 20;
/// The file of random reads, the length of one, and how many there are.
const RANDOM_FILE: u64 = 256 << 20;
const PAGE: usize = 4096;
const RANDOM_READS: u32 = 4000;
/// The files of a directory that is listed.
const FILES: u32 = 10_000;
/// The tree of sources: its directories, and the files in each.
const DIRECTORIES: u32 = 100;
const SOURCES: u32 = 20;

impl Load {
    /// Returns the unit of the rate.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Write | Self::Read => "GB/s",
            Self::List | Self::Untar => "files/s",
            Self::Random => "reads/s",
        }
    }

    /// Returns how much is done.
    pub(super) fn amount(self) -> f64 {
        match self {
            Self::Write | Self::Read => self.gigabytes(),
            Self::List => f64::from(FILES),
            Self::Untar => f64::from(DIRECTORIES * SOURCES),
            Self::Random => f64::from(RANDOM_READS),
        }
    }

    /// Returns whether a large file is moved.
    pub(super) fn is_large(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }

    /// Returns how many 10^9 bytes of a large file are moved.
    pub(super) fn gigabytes(self) -> f64 {
        FILE as f64 / 1e9
    }

    /// Makes what is used in all trials. `shared`: a directory of all systems.
    pub(super) fn prepare(self, mount: &Path, shared: &Path) -> Result<(), Failure> {
        match self {
            Self::Write => Ok(()),
            Self::Read => write(&mount.join("large"), FILE),
            Self::Random => write(&mount.join("large"), RANDOM_FILE),
            Self::List => fill(&mount.join("many")),
            Self::Untar => archive(shared),
        }
        .map_err(Failure::io(format!("prepare {}", mount.display())))
    }

    /// Removes what a trial has made.
    pub(super) fn tidy(self, mount: &Path) -> Result<(), Failure> {
        match self {
            Self::Write => fs::remove_file(mount.join("large")),
            Self::Untar => fs::remove_dir_all(mount.join("tree")),
            Self::Read | Self::List | Self::Random => Ok(()),
        }
        .map_err(Failure::io(format!("tidy {}", mount.display())))
    }
}

/// Does it, and prints how many seconds it took.
pub(crate) fn run(load: Load, mount: &Path, shared: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    match load {
        Load::Write => write(&mount.join("large"), FILE),
        Load::Read => read(&mount.join("large")),
        Load::Random => read_random(&mount.join("large")),
        Load::List => list(&mount.join("many")),
        Load::Untar => unpack(&shared.join(ARCHIVE), mount),
    }
    .map_err(Failure::io(format!("use {}", mount.display())))?;
    println!("{}", begun.elapsed().as_secs_f64());
    Ok(())
}

const ARCHIVE: &str = "sources.tar";

fn write(path: &Path, len: u64) -> std::io::Result<()> {
    let (mut file, block) = (File::create(path)?, vec![7; BLOCK]);
    for _ in 0..len / BLOCK as u64 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

fn read(path: &Path) -> std::io::Result<()> {
    let (mut file, mut block, mut sum) = (File::open(path)?, vec![0; BLOCK], 0);
    loop {
        match file.read(&mut block)? {
            0 => break,
            count => sum += count as u64,
        }
    }
    if sum == FILE { Ok(()) } else { Err(std::io::Error::other(format!("{sum} bytes"))) }
}

fn read_random(path: &Path) -> std::io::Result<()> {
    let (file, mut page, mut random) = (File::open(path)?, [0; PAGE], Rng::new(1));
    for _ in 0..RANDOM_READS {
        let place = random.u64() % (RANDOM_FILE / PAGE as u64);
        file.read_exact_at(&mut page, place * PAGE as u64)?;
    }
    Ok(())
}

fn fill(directory: &Path) -> std::io::Result<()> {
    fs::create_dir(directory)?;
    (0..FILES).try_for_each(|number| fs::write(directory.join(format!("file-{number}")), "text"))
}

fn list(directory: &Path) -> std::io::Result<()> {
    ended(Command::new("ls").arg("-l").arg(directory).stdout(Stdio::null()))
}

fn unpack(archive: &Path, mount: &Path) -> std::io::Result<()> {
    ended(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(mount))
}

/// Makes a tree of files as long as sources are, most of them some KiB, and packs it.
fn archive(shared: &Path) -> std::io::Result<()> {
    let archive = shared.join(ARCHIVE);
    if archive.exists() {
        return Ok(());
    }
    let (tree, mut random) = (shared.join("tree"), Rng::new(1));
    for directory in 0..DIRECTORIES {
        let directory = tree.join(format!("part-{directory}"));
        fs::create_dir_all(&directory)?;
        for source in 0..SOURCES {
            let len = 1 << (9 + random.u64() % 7);
            let text = vec![b'x'; len + random.u64() as usize % len];
            fs::write(directory.join(format!("source-{source}.c")), text)?;
        }
    }
    ended(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(shared).arg("tree"))?;
    fs::remove_dir_all(tree)
}

fn ended(command: &mut Command) -> std::io::Result<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(std::io::Error::other(format!("{command:?} ended with {status}"))),
    }
}
