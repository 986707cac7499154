//! Common parts of the tools `lnetctl`, `lctl` and `lst`: output, exit statuses, and built-in
//! commands.

use std::io::Write;

use crate::show::exit;

/// The exit status of a tool.
pub type Status = u8;

/// The built-in commands of each tool.
pub const BUILT_IN: [&str; 10] = [
    "quit",
    "exit",
    "help",
    "--help",
    "version",
    "--version",
    "list-commands",
    "--list-commands",
    "--ignore_errors",
    "ignore_errors",
];

/// Returns the built-in and the tool's own commands, four to a line.
pub fn command_table<'a>(own: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = BUILT_IN.into_iter().chain(own).collect();
    let mut out = String::new();
    for line in names.chunks(4) {
        out.extend(line.iter().map(|name| format!("{name:<20}")));
        out.push('\n');
    }
    out
}

/// Returns the message for an unknown command.
pub fn unknown_command(tool: &str, word: &str) -> String {
    format!("{tool}: '{word}' is not a valid command. See '{tool} --list-commands'.\n")
}

/// Writes to standard output. A closed output is reported only by the status.
pub fn print(text: &str) -> Status {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => 0,
        Err(_) => exit::FAILED,
    }
}

/// Writes to standard error.
pub fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
