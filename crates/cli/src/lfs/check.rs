//! `lfs check`: whether the servers answer.

use clap::ValueEnum;
use fulmar_base::Errno;
use fulmar_rpc::import::TargetKind;
use serde_json::{Value, json};

use super::status;
use super::whole::{TargetCheck, Whole, WholeArgs};
use crate::context::{Status, complain, print};

/// Check whether servers answer
///
/// Each target is pinged, and has a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which servers
    #[arg(value_enum)]
    which: Which,
    #[command(flatten)]
    whole: WholeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Object targets
    Osts,
    /// Metadata targets
    #[value(alias = "mds")]
    Mdts,
    /// The management service
    #[value(alias = "mgs")]
    Mgts,
    /// All of them
    All,
    /// All of them
    Servers,
}

impl Which {
    fn has(self, kind: TargetKind) -> bool {
        match self {
            Self::Osts => kind == TargetKind::Ost,
            Self::Mdts => kind == TargetKind::Mdt,
            Self::Mgts => kind == TargetKind::Mgs,
            Self::All | Self::Servers => true,
        }
    }
}

pub(super) fn run(args: &Args) -> Status {
    let all = match args.whole.reach("lfs check") {
        Ok(all) => all,
        Err(status) => return status,
    };
    let ping = |mut whole: Whole| whole.ping(|kind| args.which.has(kind));
    let checked: Vec<TargetCheck> = all.into_iter().flat_map(ping).collect();
    if args.whole.json {
        print(&format!("{:#}\n", Value::from_iter(checked.iter().map(object))));
    } else {
        for (device, answer) in &checked {
            match line(device, *answer) {
                Ok(line) => drop(print(&line)),
                Err(line) => complain(&line),
            }
        }
    }
    let answers: Vec<_> = checked.into_iter().map(|(_, answer)| answer).collect();
    status(&answers)
}

/// Returns the line for a device, or that for standard error.
fn line(device: &str, answer: Result<(), Errno>) -> Result<String, String> {
    match answer {
        Ok(()) => Ok(format!("{device} active.\n")),
        Err(Errno::ENODATA) => Ok(format!("{device} inactive.\n")),
        Err(errno) => {
            let number = errno.0.unsigned_abs();
            Err(format!("lfs check: error: check '{device}': {errno} ({number})\n"))
        }
    }
}

fn object((device, answer): &TargetCheck) -> Value {
    let state = match answer {
        Ok(()) => "active",
        Err(Errno::ENODATA) => "inactive",
        Err(_) => "error",
    };
    let error = answer.err().filter(|errno| *errno != Errno::ENODATA);
    json!({ "device": device, "state": state, "error": error.map(|errno| errno.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_lfs() {
        let device = "lv-OST0000-osc-ff110000077c3800";
        let active = "lv-OST0000-osc-ff110000077c3800 active.\n";
        assert_eq!(line(device, Ok(())).unwrap(), active);
        let inactive = line("MGC10.99.0.2@tcp", Err(Errno::ENODATA)).unwrap();
        assert_eq!(inactive, "MGC10.99.0.2@tcp inactive.\n");
        assert_eq!(
            line(device, Err(Errno::ETIMEDOUT)).unwrap_err(),
            format!("lfs check: error: check '{device}': Connection timed out (110)\n")
        );
        let checked = (device.to_owned(), Err(Errno::ETIMEDOUT));
        let expected = json!({
            "device": device, "state": "error", "error": "Connection timed out",
        });
        assert_eq!(object(&checked), expected);
    }

    #[test]
    fn all_servers_are_those_of_every_kind() {
        let kinds = [TargetKind::Ost, TargetKind::Mdt, TargetKind::Mgs];
        for which in [Which::All, Which::Servers] {
            assert!(kinds.iter().all(|kind| which.has(*kind)));
        }
        assert_eq!(kinds.map(|kind| Which::Osts.has(kind)), [true, false, false]);
    }

    #[test]
    fn the_exit_status_is_the_first_error() {
        let answers = [Ok(()), Err(Errno::ENODATA), Err(Errno::ETIMEDOUT), Err(Errno::EIO)];
        assert_eq!(status(&answers), 110);
        assert_eq!(status(&answers[..2]), 0);
    }
}
