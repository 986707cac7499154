//! An agent executes the operations of one client for a tester that is another process, perhaps on another machine.
//!
//! It reads lines and answers each with one ([`Outcome`] as text):
//!
//! ```text
//! run NAME BEGUN      operations are in this directory from now on; times since BEGUN are during the run
//! 0 write h0 0 100 7  an operation
//! use BYTES           all servers are used; their OSTs have so many bytes at least
//! ```

use std::io::{self, BufRead, Write};
use std::path::Path;

use super::calls::Directory;
use super::operation::Step;
use super::outcome::Outcome;
use super::visit::visit;

/// The permissions that files do not get which an agent makes: what the model expects.
const UMASK: u32 = 0o022;

/// The word by which all servers are used.
pub(super) const USE: &str = "use ";

/// Executes operations in directories of `at` until there are no more lines.
///
/// # Errors
/// Why lines cannot be read or written, or what a line is that is not one of the above.
pub fn serve(at: &Path, lines: impl BufRead, mut answers: impl Write) -> Result<(), String> {
    let of_pipe = |error: io::Error| format!("the tester has gone: {error}");
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
    let mut directory = None;
    for line in lines.lines() {
        let outcome = answer(at, &line.map_err(of_pipe)?, &mut directory)?;
        writeln!(answers, "{outcome}").and_then(|()| answers.flush()).map_err(of_pipe)?;
    }
    Ok(())
}

fn answer(at: &Path, line: &str, directory: &mut Option<Directory>) -> Result<Outcome, String> {
    if let Some(run) = line.strip_prefix("run ") {
        // What is open in the last one is closed before.
        *directory = None;
        *directory = Some(begin(at, run)?);
        return Ok(Outcome::Done);
    }
    if let Some(least) = line.strip_prefix(USE) {
        let least = least.parse().map_err(|_| format!("{least:?} is not a number of bytes"))?;
        let size =
            || rustix::fs::statvfs(at).ok().map(|all| (all.f_blocks * all.f_frsize, all.f_files));
        return Ok(visit(least, size));
    }
    let step: Step = line.parse()?;
    let directory = directory.as_mut().ok_or_else(|| format!("{line:?} is before any run"))?;
    Ok(directory.perform(&step.operation))
}

/// Makes the directory of a run, unless another agent has made it.
fn begin(at: &Path, run: &str) -> Result<Directory, String> {
    let (name, begun) = run.split_once(' ').ok_or_else(|| format!("run {run} has no time"))?;
    let begun = begun.parse().map_err(|_| format!("{begun:?} is not a time of a run"))?;
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(format!("{name:?} is not the name of a run"));
    }
    let root = at.join(name);
    match std::fs::create_dir(&root) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("cannot make {}: {error}", root.display()))
        }
        _ => Ok(Directory::new(root, begun)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill::scratch;

    #[test]
    fn each_line_is_answered_by_one() {
        let at = scratch("model-agent");
        std::fs::create_dir_all(&at).unwrap();
        let lines = "run a 1000\n0 open h0 /f rwc default\n0 write h0 0 2 7\n0 truncate /f 100\n0 read h0 1 9\n\
            run b 1000\n0 read h0 0 1\n0 list / 0\nrun a 1000\n1 list / 0\nuse 1\n0 restart all\n";
        let mut answers = Vec::new();
        let served = serve(&at, lines.as_bytes(), &mut answers);
        let refused = ["0 list / 0", "run ../a 1", "run a", "run a b", "fly"]
            .map(|line| serve(&at, line.as_bytes(), io::sink()).unwrap_err());
        std::fs::remove_dir_all(&at).unwrap();
        served.unwrap();
        let second = crate::model::bytes(7, 1, 1)[0];
        let expected = format!(
            "done\ndone\ndone\ndone\nbytes {second:02x} 00*8\ndone\nerror 9\nnames\ndone\nnames f:f\ndone\nerror 95\n"
        );
        assert_eq!(String::from_utf8(answers).unwrap(), expected);
        assert_eq!(
            refused,
            [
                "\"0 list / 0\" is before any run",
                "\"../a\" is not the name of a run",
                "run a has no time",
                "\"b\" is not a time of a run",
                "\"fly\" has no client and verb",
            ]
        );
    }
}
