//! Description of the commands for clap: help, completion and the manual. They are parsed by
//! [`Line`](super::Line): clap's abbreviations, messages and statuses are not those of `lst`.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::load::{MeshArgs, RunArgs};
use super::{MESH, Opt, SUBCOMMANDS, Subcommand, batch};

const ABOUT: &str = "Control LNet selftest from this node with the commands of Lustre's lst";
const LONG_ABOUT: &str = "\
Control LNet selftest from this node with the commands of Lustre's lst

A session has groups of nodes, which may run Fulmar or the kernel's LNet, and batches of tests \
between groups. Set LST_SESSION to a number of your choice, such as $$. Without a command, lst \
reads commands line by line from standard input.";

/// `run` has two meanings; the description is that of the one with more options.
const BATCH_HELP: &str = "Without --from and --to: lst run [--timeout SECONDS] [BATCH] starts the \
                          tests of a batch.";

/// Adds the description of every command to `command`.
pub fn document(command: Command) -> Command {
    let command = command.about(ABOUT).long_about(LONG_ABOUT);
    let load = RunArgs::command().name(batch::RUN.name).before_help(BATCH_HELP);
    let classic = SUBCOMMANDS.iter().filter(|subcommand| subcommand.name != batch::RUN.name);
    let command = command.subcommands(classic.map(describe));
    command.subcommand(load).subcommand(MeshArgs::command().name(MESH))
}

fn describe(subcommand: &Subcommand) -> Command {
    let mut command = Command::new(subcommand.name).about(subcommand.about);
    if !subcommand.note.is_empty() {
        command = command.after_help(subcommand.note);
    }
    command = command.args(subcommand.options.iter().map(option));
    for operand in subcommand.operands.split_whitespace() {
        let name = operand.trim_start_matches('[').trim_end_matches("...").trim_end_matches(']');
        let mut arg = Arg::new(name).required(!operand.starts_with('['));
        if operand.ends_with("...") {
            arg = arg.num_args(1..);
        }
        command = command.arg(arg);
    }
    command
}

fn option(opt: &Opt) -> Arg {
    let arg = Arg::new(opt.long).long(opt.long).help(opt.help);
    let arg = match opt.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match opt.value {
        Some(value) => arg.value_name(value),
        None => arg.action(ArgAction::SetTrue),
    }
}
