//! `fulmar lst`: finds the node, and passes the arguments to [`fulmar_lst`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Command, Error, FromArgMatches};

use crate::context::{NodeArgs, complain};
use crate::shell;

/// Tells clap the description of `fulmar lst`; [`fulmar_lst`] parses the rest.
#[derive(Debug)]
pub(crate) struct Args {}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        fulmar_lst::document(NodeArgs::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {})
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
}

/// Runs the tool with `args`, of which the first is its name.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    let (which, words) = match take_control(words_of(args)) {
        Ok(taken) => taken,
        Err(wrong) => {
            complain(&format!("lst: {wrong}\n"));
            return ExitCode::from(fulmar_lst::status::USAGE);
        }
    };
    let connect = || which.client();
    ExitCode::from(if words.is_empty() {
        shell::run("lst", |line| fulmar_lst::run(&connect, &words_of(&line)))
    } else {
        fulmar_lst::run(&connect, &words)
    })
}

/// Returns the arguments after the name of the tool.
fn words_of(args: &[OsString]) -> Vec<String> {
    args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Removes the option for the control socket from the arguments, at any position.
fn take_control(words: Vec<String>) -> Result<(NodeArgs, Vec<String>), String> {
    let (mut control, mut rest) = (None, Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--control" {
            control = Some(words.next().ok_or("--control needs a value: PATH")?);
        } else if let Some(path) = word.strip_prefix("--control=") {
            control = Some(path.to_owned());
        } else {
            rest.push(word);
        }
    }
    Ok((NodeArgs::at(control.map(PathBuf::from)), rest))
}
