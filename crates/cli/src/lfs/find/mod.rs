//! `lfs find`: the files of trees on a mount that have what is wanted, among that stripes and OSTs.

mod conditions;
mod parse;

use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::context::{Status, complain};

use conditions::Candidate;
use parse::FindRequest;

/// Find files, by name, type, size, times, owner, and by their stripes
///
/// Prints the path of each file below the given ones for which all conditions hold. Options are those of
/// Lustre's lfs; "!" before a condition turns it round.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Paths on a mount, and then conditions
    #[arg(
        value_name = "PATH|CONDITION",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

const HELP: &str = "Conditions (+N: more than N, -N: less):
  -name PATTERN              name, with * ? and [abc]
  -type b|c|d|f|l|p|s        type
  -size [+-]N[bkMGTPE]       size, in bytes or these units, rounded up to them
  -atime|-mtime|-ctime [+-]N[smhdw]  age, in days or these units, rounded down to them
  -uid|-gid [+-]N            owner or group by number
  -user|-group NAME          the same by name or number
  -O, --ost INDEX[,INDEX...] an object on one of these OSTs: numbers, or names such as lv-OST0003_UUID
  -c, --stripe-count [+-]N   stripes
  -S, --stripe-size [+-]N[kMG]  bytes of a stripe
Options:
  -maxdepth N                at most so many levels below the paths
  -print0                    a NUL behind each path

Examples:
  fulmar lfs find /mnt/lustre -type f -size +1G --ost 3
  fulmar lfs find /mnt/lustre -mtime +90 ! -user root -print0";

/// Finds files.
pub(super) fn run(args: &Args) -> Status {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    let wanted = match FindRequest::parse(args.words.clone()) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(&format!("fulmar lfs find: {error}\n"));
            return 2;
        }
    };
    let mut walk = Walk { wanted: &wanted, now, out: BufWriter::new(io::stdout()), status: 0 };
    let walked = wanted.paths.iter().try_for_each(|path| walk.visit(path, 0));
    // Who reads the list no more wants no more of it.
    match walked.and_then(|()| walk.out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("fulmar lfs find: {error}\n"));
            1
        }
        _ => walk.status,
    }
}

struct Walk<'a, W: Write> {
    wanted: &'a FindRequest,
    now: i64,
    out: W,
    status: Status,
}

impl<W: Write> Walk<'_, W> {
    /// Looks at a file, and at what is below it. An error is one of the output.
    fn visit(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        let found = match std::fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) => return self.failed(path, &error),
        };
        let is_directory = found.is_dir();
        let candidate = Candidate::new(path, found, self.now);
        match candidate.meets_all(&self.wanted.conditions) {
            Ok(true) => {
                self.out.write_all(path.as_os_str().as_bytes())?;
                self.out.write_all(if self.wanted.nul { b"\0" } else { b"\n" })?;
            }
            Ok(false) => {}
            Err(error) => self.failed(path, &error)?,
        }
        if !is_directory || self.wanted.depth.is_some_and(|most| depth >= most) {
            return Ok(());
        }
        match std::fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => self.visit(&entry.path(), depth + 1)?,
                        Err(error) => return self.failed(path, &error),
                    }
                }
                Ok(())
            }
            Err(error) => self.failed(path, &error),
        }
    }

    fn failed(&mut self, path: &Path, error: &io::Error) -> io::Result<()> {
        complain(&format!("fulmar lfs find: {}: {error}\n", path.display()));
        let number = error.raw_os_error().and_then(|number| Status::try_from(number).ok());
        self.status = number.unwrap_or(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is found in a tree of its own.
    fn found(name: &str, conditions: &str) -> Vec<String> {
        let top = std::env::temp_dir().join(format!("fulmar-find-{name}-{}", std::process::id()));
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        for (file, len) in [("empty", 0), ("a/small", 10), ("a/b/large.dat", 3 << 20)] {
            std::fs::File::create(top.join(file)).unwrap().set_len(len).unwrap();
        }
        std::os::unix::fs::symlink("empty", top.join("link")).unwrap();
        let words = conditions.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
        let path = top.display().to_string();
        let wanted =
            FindRequest::parse(std::iter::once(path.clone()).chain(words).collect()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let mut walk = Walk { wanted: &wanted, now, out: Vec::new(), status: 0 };
        walk.visit(&top, 0).unwrap();
        let end = if wanted.nul { '\0' } else { '\n' };
        let text = String::from_utf8(walk.out).unwrap();
        let lines = text.split_terminator(end);
        let mut all: Vec<String> =
            lines.map(|line| line.strip_prefix(&path).unwrap().to_owned()).collect();
        all.sort();
        std::fs::remove_dir_all(&top).unwrap();
        assert_eq!(walk.status, 0);
        all
    }

    #[test]
    fn all_conditions_hold_for_what_is_found() {
        assert_eq!(
            found("all", ""),
            ["", "/a", "/a/b", "/a/b/large.dat", "/a/small", "/empty", "/link"]
        );
        assert_eq!(found("name", "-name *.dat"), ["/a/b/large.dat"]);
        assert_eq!(found("types", "-type f -size -1M"), ["/empty"]);
        assert_eq!(found("small", "-type f -size 1k"), ["/a/small"]);
        assert_eq!(found("large", "-size +2M -type f"), ["/a/b/large.dat"]);
        assert_eq!(
            found("not", "! -type d ! -type l -size -4M"),
            ["/a/b/large.dat", "/a/small", "/empty"]
        );
        assert_eq!(found("depth", "-maxdepth 1 -type d -print0"), ["", "/a"]);
        assert_eq!(found("fresh", "-type l -mtime 0 -ctime -1 -atime -1h"), ["/link"]);
        assert_eq!(found("old", "-mtime +0"), [""; 0]);
    }
}
