//! A manual page: all that a command can do, with its subcommands, in one page.

use std::io;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// A page in the format of `man`.
pub(super) struct Page {
    pub(super) name: String,
    pub(super) section: char,
    pub(super) text: String,
}

/// What commands read of the environment.
const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "FULMAR_CONTROL",
        "Control socket of the node, as with --control: by default /run/fulmar/control.sock, or \
         $XDG_RUNTIME_DIR/fulmar/control.sock if that does not exist.",
    ),
    (
        "FULMAR_LOG",
        "What \"fulmar node\" and \"fulmar up\" write to their log, which is standard error: error, warn, info \
         (the default) or off; a list such as warn,fulmar_server=info has levels by part.",
    ),
];

const FILES: [(&str, &str); 2] = [
    ("/etc/fulmar/node.yaml", "The configuration of the node that fulmar-node.service runs."),
    ("/run/fulmar/control.sock", "The control socket of that node."),
];

/// Renders the page of a command.
pub(super) fn render(command: Command, section: char) -> Page {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    write(&command, &name, section, &mut text).expect("writing to memory does not fail");
    Page { name, section, text: String::from_utf8_lossy(&text).into_owned() }
}

fn write(command: &Command, name: &str, section: char, to: &mut Vec<u8>) -> io::Result<()> {
    let source = concat!("Fulmar ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name).section(section).source(source);
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if command.has_subcommands() {
        // The page of `fulmar` refers to those of its commands, any other one has them.
        match command.get_name() {
            "fulmar" => man.render_subcommands_section(to)?,
            _ => {
                section_of("COMMANDS").to_writer(to)?;
                write_subcommands(command, to)?;
            }
        }
    }
    write_after_help(command, "SH", to)?;
    write_list("ENVIRONMENT", &ENVIRONMENT, to)?;
    write_list("FILES", &FILES, to)?;
    let mut roff = section_of("SEE ALSO");
    roff.text([roman("fulmar(1), the guide in /usr/share/doc/fulmar/guide")]);
    roff.to_writer(to)
}

fn section_of(heading: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    roff
}

/// Writes the commands without subcommands of their own.
fn write_subcommands(command: &Command, to: &mut Vec<u8>) -> io::Result<()> {
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        if one.has_subcommands() { write_subcommands(one, to)? } else { write_subcommand(one, to)? }
    }
    Ok(())
}

fn write_subcommand(command: &Command, to: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:");
    let mut roff = Roff::new();
    roff.control("SS", [command.get_bin_name().unwrap_or_else(|| command.get_name())]);
    unfilled(usage.lines().map(str::trim), &mut roff);
    let about = command.get_long_about().or_else(|| command.get_about());
    for line in about.map(ToString::to_string).unwrap_or_default().lines() {
        match line.trim() {
            "" => roff.control("PP", []),
            line => roff.text([roman(line)]),
        };
    }
    roff.to_writer(to)?;
    to.extend(options(command)?.into_bytes());
    write_after_help(command, "PP", to)
}

/// Renders the options that only this command has, as a part of a section.
fn options(command: &Command) -> io::Result<String> {
    let own = |arg: &Arg| !arg.is_global_set() && arg.get_id() != "help";
    let hidden = command.clone().mut_args(|arg| {
        let is_own = own(&arg);
        arg.hide(!is_own)
    });
    let mut text = Vec::new();
    Man::new(hidden).render_options_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| *line != ".SH OPTIONS");
    Ok(lines.map(|line| line.replacen(".SH ", ".PP\n.I ", 1) + "\n").collect())
}

/// Writes examples and tables, whose first line is their heading.
fn write_after_help(command: &Command, level: &str, to: &mut Vec<u8>) -> io::Result<()> {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (heading, rest) = help.split_once('\n').unwrap_or_default();
    let mut roff = Roff::new();
    match level {
        _ if rest.is_empty() => return Ok(()),
        "SH" => roff.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]),
        _ => roff.control("PP", []).text([roman(heading)]),
    };
    unfilled(rest.lines(), &mut roff);
    roff.to_writer(to)
}

/// Lines that stay as they are.
fn unfilled<'a>(lines: impl Iterator<Item = &'a str>, roff: &mut Roff) {
    roff.control("PP", []).control("nf", []);
    lines.for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []).control("PP", []);
}

fn write_list(heading: &str, list: &[(&str, &str)], to: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = section_of(heading);
    for (name, text) in list {
        roff.control("TP", []).text([roman(*name)]).text([roman(*text)]);
    }
    roff.to_writer(to)
}
