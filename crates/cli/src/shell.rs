//! The interactive mode of the tools, which reads commands from standard input.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal};

use clap::Command;
use clap::error::ErrorKind;
use fulmar_base::Errno;
use fulmar_control::show::{ErrorObject, exit};
use fulmar_control::tool::{BUILT_IN, command_table, unknown_command};

use crate::context::{Status, complain, print};

/// Runs the lines of standard input. If it is not a terminal, stops at the first failure unless
/// `ignore_errors` was given before.
pub(crate) fn run(tool: &str, execute: impl Fn(Vec<OsString>) -> Status) -> Status {
    let stdin = std::io::stdin();
    let terminal = stdin.is_terminal();
    let (mut ignore, mut status) = (false, 0);
    let prompt = || terminal.then(|| print("> "));
    prompt();
    for line in stdin.lock().lines() {
        let Ok(line) = line else { break };
        let Some(words) = shlex::split(line.trim()) else {
            complain(&format!("{tool}: missing closing quote in: {line}\n"));
            status = exit::BAD_PARAM;
            if terminal {
                prompt();
                continue;
            }
            break;
        };
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit") => return status,
            Some("ignore_errors" | "--ignore_errors") => ignore = true,
            Some(_) => {
                let words = [tool.to_owned()].into_iter().chain(words);
                status = execute(words.map(OsString::from).collect());
                if status != 0 && !terminal && !ignore {
                    return status;
                }
            }
        }
        prompt();
    }
    status
}

/// Reports an error of the command line, or prints the help that it requests.
pub(crate) fn usage(command: Command, error: &clap::Error, words: &[OsString]) -> Status {
    let tool = &command.get_name().to_owned();
    let word = error.get(clap::error::ContextKind::InvalidSubcommand);
    match (error.kind(), word) {
        (ErrorKind::InvalidSubcommand, Some(_)) if wants_json(words) => {
            say_json(tool, error);
            exit::FAILED
        }
        (ErrorKind::InvalidSubcommand, Some(word)) => unknown(tool, &word.to_string()),
        (ErrorKind::MissingSubcommand, _) => {
            print(&help_of(command, words));
            exit::BAD_PARAM
        }
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => {
            print(&error.render().to_string())
        }
        _ if wants_json(words) => {
            say_json(tool, error);
            exit::BAD_PARAM
        }
        _ => {
            complain(&error.render().to_string());
            exit::BAD_PARAM
        }
    }
}

fn wants_json(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--json")
}

/// Reports an error of the command line as JSON.
fn say_json(tool: &str, error: &clap::Error) {
    let text = error.render().to_string();
    let descr = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let object = ErrorObject {
        op: "parser".into(),
        object: tool.to_owned(),
        errno: -Errno::EINVAL.0,
        descr: descr.to_owned(),
        hint: None,
    };
    complain(&object.to_json());
}

/// Returns the help of the command that `words` select.
fn help_of(mut command: Command, words: &[OsString]) -> String {
    command.build();
    let mut at = &command;
    for word in words.iter().skip(1) {
        at = word.to_str().and_then(|word| at.find_subcommand(word)).unwrap_or(at);
    }
    at.clone().render_help().to_string()
}

/// Reports an unknown command.
pub(crate) fn unknown(tool: &str, word: &str) -> Status {
    complain(&unknown_command(tool, word));
    exit::FAILED
}

/// Prints the commands of a group, if `words` ask for them: `net --list-commands`.
pub(crate) fn list_group(mut tool: Command, words: &[OsString]) -> Option<Status> {
    let [_, .., group, last] = words else { return None };
    let is_asked = last == "--list-commands" || last == "list-commands";
    let group = tool.find_subcommand_mut(group).filter(|group| is_asked && group.has_subcommands());
    group.map(|group| list_commands(group))
}

/// Prints every command, four to a line.
pub(crate) fn list_commands(command: &Command) -> Status {
    let own = command.get_subcommands().map(Command::get_name);
    print(&command_table(own.filter(|name| !BUILT_IN.contains(name))))
}
