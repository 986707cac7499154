//! `fulmar cp`: copies files and trees between this machine and file systems that are not mounted.

mod file;
mod place;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::value_parser;
use fulmar_base::Errno;
use fulmar_client::{Address, blocking};
use fulmar_text::{byte_rate, bytes, count};
use indicatif::ProgressBar;

use crate::context::{Status, complain, print};
use crate::lfs::ReachArgs;
use place::{Place, PlaceContent};
use tree::{Purpose, Totals, Tree};

/// Copy files and directories into and out of Lustre file systems that are not mounted
///
/// A file of a Lustre file system is the NIDs of the management service, the name of the file system and the
/// path; any other name is one of this machine. Copies have the permissions and times of the files. What was
/// copied is on disk at the end.
///
/// With -r, the copy of a directory is TO itself, or a directory in TO if TO ends with a slash; what is there
/// already stays, or is replaced by files of the same names. What cannot be copied is told, and the rest is
/// copied.
///
/// Kernel nodes accept connections only from privileged ports: run as root or with
/// CAP_NET_BIND_SERVICE.
///
/// Exit status: 0; 1 if something was not copied, or differs; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file or directory to copy
    from: String,
    /// Its copy
    to: String,
    /// Copy directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Leave out files whose copies have the same length and time: continues an interrupted copy
    #[arg(long, requires = "recursive")]
    resume: bool,
    /// Compare the copies with the files afterwards, as the servers have them
    #[arg(long)]
    verify: bool,
    /// Configuration of LNet as "fulmar node" takes it: networks of this client, and routes to servers behind
    /// routers
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["interface", "port"])]
    config: Option<PathBuf>,
    /// Number of files that are copied at once
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u16).range(1..=256))]
    jobs: u16,
    #[command(flatten)]
    reach: ReachArgs,
}

const EXAMPLES: &str = "Examples:
  fulmar cp results.tar 10.0.0.1@tcp:/lustre/archive/results.tar
  fulmar cp 10.0.0.1@tcp:/lustre/archive/results.tar .
  fulmar cp -r --verify src 10.0.0.1@tcp:/lustre/archive/   # makes /archive/src
  fulmar cp -r --resume 10.0.0.1@tcp:/lustre/run7 10.8.0.1@tcp:/far/run7";

pub(crate) fn main(args: &Args) -> ExitCode {
    ExitCode::from(args.run().unwrap_or_else(|status| status))
}

/// An argument: the file system, if it is not this machine, and the path.
struct Name {
    address: Option<Address>,
    path: String,
}

impl Name {
    fn new(argument: &str) -> Self {
        match argument.parse::<Address>() {
            Ok(address) => {
                let (address, path) = address.split();
                Self { address: Some(address), path }
            }
            Err(_) => Self { address: None, path: argument.to_owned() },
        }
    }

    fn place(&self, mount: Option<&blocking::FileSystem>) -> Place {
        match mount {
            Some(mount) => Place::remote(mount.clone(), &self.path),
            None => Place::local(&self.path),
        }
    }
}

impl Args {
    fn run(&self) -> Result<Status, Status> {
        let (from, to) = (Name::new(&self.from), Name::new(&self.to));
        // What is verified is read by another client, which has nothing cached.
        let again = if self.verify { to.address.as_ref() } else { None };
        let addresses = [from.address.as_ref(), to.address.as_ref(), again];
        let mut mounts = self.reach.mounts("cp", &addresses, self.config.as_deref())?;
        let mut each = std::mem::take(&mut mounts.each).into_iter();
        let mut next = || each.next().flatten();
        let (source, target, reader) = (next(), next(), next());
        let from = from.place(source.as_ref());
        let done = self.target(&from, to.place(target.as_ref())).and_then(|(found, place)| {
            let copied = self.copy(&from, &found, &place)?;
            if !self.verify || copied.failures > 0 {
                return Ok(copied);
            }
            let place = reader.as_ref().map_or_else(|| place.clone(), |mount| place.at(mount));
            let compared = self.go(Purpose::Compare, &from, &found, &place);
            Ok(Totals { failures: compared.failures, ..copied })
        });
        drop(from);
        [source, target, reader].into_iter().flatten().for_each(blocking::FileSystem::unmount);
        match done {
            Ok(totals) => Ok(Status::from(totals.failures > 0)),
            Err(why) => {
                complain(&format!("fulmar cp: {why}\n"));
                Ok(1)
            }
        }
    }

    /// Returns what is to be copied, and where its copy will be.
    fn target(&self, from: &Place, to: Place) -> Result<(PlaceContent, Place), String> {
        let found = from.follow()?.ok_or_else(|| format!("{from}: No such file or directory"))?;
        let is_directory = matches!(found, PlaceContent::Directory { .. });
        if is_directory && !self.recursive {
            return Err(format!("{from} is a directory: copy it with -r"));
        }
        let into = if is_directory || self.to.ends_with('/') {
            self.to.ends_with('/')
        } else {
            matches!(to.follow()?, Some(PlaceContent::Directory { .. }))
        };
        if !into {
            return Ok((found, to));
        }
        let name = from.name().ok_or_else(|| format!("{from} has no name: name its copy"))?;
        Ok((found, to.join(&name)))
    }

    fn copy(&self, from: &Place, found: &PlaceContent, to: &Place) -> Result<Totals, String> {
        let begun = Instant::now();
        let totals = self.go(Purpose::Copy { resumes: self.resume }, from, found, to);
        to.sync_all()?;
        let seconds = begun.elapsed().as_secs_f64();
        if self.recursive {
            let rate = byte_rate(totals.bytes as f64 / seconds.max(1e-9));
            let (files, size) = (count(totals.files, "file"), bytes(totals.bytes));
            let left = match totals.skipped {
                0 => String::new(),
                skipped => format!(", {} there already", count(skipped, "file")),
            };
            print(&format!("{files} copied, {size} in {seconds:.1} s, {rate}{left}\n"));
        }
        Ok(totals)
    }

    fn go(&self, purpose: Purpose, from: &Place, found: &PlaceContent, to: &Place) -> Totals {
        let bar = ProgressBar::new_spinner();
        let tree = Tree::new(purpose, self.jobs.into());
        let totals = tree.run((from, found, to), |event| match event {
            tree::Event::Failed(why) => {
                bar.suspend(|| complain(&format!("fulmar cp: {why}\n")));
            }
            tree::Event::Done(totals) => {
                let (files, size) = (count(totals.files, "file"), bytes(totals.bytes));
                bar.set_message(format!("{}: {files}, {size}", purpose.doing()));
                bar.tick();
            }
        });
        bar.finish_and_clear();
        totals
    }
}

/// Returns the number of an error of the system.
fn errno(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_file_system_has_a_management_service() {
        let name = Name::new("10.0.0.1@tcp:/lv/a/b");
        assert_eq!((name.address.unwrap().name.as_str(), name.path.as_str()), ("lv", "/a/b"));
        for local in ["/a/b", "a", "."] {
            let name = Name::new(local);
            assert!(name.address.is_none() && name.path == local, "{local}");
        }
    }
}
