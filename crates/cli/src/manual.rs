//! `fulmar completion` and `fulmar man`: what is installed beside the binary.

mod page;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::context::{complain, print};
use crate::{Fulmar, lctl, lnetctl};

/// Print a shell completion script
///
/// For bash: fulmar completion bash > /etc/bash_completion.d/fulmar
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
    /// For which name of the binary
    #[arg(default_value = "fulmar", value_name = "TOOL")]
    tool: Tool,
}

/// Print a manual page, or write all of them
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Of which name of the binary
    #[arg(default_value = "fulmar", value_name = "TOOL")]
    tool: Tool,
    /// Write the pages of fulmar, of each of its commands and of mount.fulmar below this directory, such as
    /// /usr/share/man
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the pages of the tools that have the names of Lustre's below this directory
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
}

/// A name that the binary answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    Fulmar,
    Lnetctl,
    Lctl,
    Lst,
    Lfs,
    #[value(name = "mount.fulmar")]
    MountFulmar,
}

/// The tools that have the names of Lustre's.
const OF_LUSTRE: [Tool; 4] = [Tool::Lnetctl, Tool::Lctl, Tool::Lst, Tool::Lfs];

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar",
            Self::Lnetctl => "lnetctl",
            Self::Lctl => "lctl",
            Self::Lst => "lst",
            Self::Lfs => "lfs",
            Self::MountFulmar => "mount.fulmar",
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Fulmar => Fulmar::command(),
            Self::Lnetctl => lnetctl::Args::command(),
            Self::Lctl => lctl::Args::command(),
            Self::Lst | Self::Lfs => self.called(self.name()),
            Self::MountFulmar => self.called("mount"),
        }
    }

    /// Returns a command of `fulmar` as a command of its own, by this name.
    fn called(self, command: &str) -> Command {
        let all = Fulmar::command();
        let command = all.find_subcommand(command).expect("fulmar has this command").clone();
        command.name(self.name()).version(env!("CARGO_PKG_VERSION"))
    }

    /// The section of the manual: what users run, and what administrators do.
    fn section(self) -> char {
        match self {
            Self::Fulmar | Self::Lfs => '1',
            Self::Lnetctl | Self::Lctl | Self::Lst | Self::MountFulmar => '8',
        }
    }
}

impl Completion {
    pub(crate) fn print(self) -> ExitCode {
        let (mut command, mut script) = (self.tool.command(), Vec::new());
        clap_complete::generate(self.shell, &mut command, self.tool.name(), &mut script);
        ExitCode::from(print(&String::from_utf8_lossy(&script)))
    }
}

impl Man {
    pub(crate) fn write(self) -> ExitCode {
        if self.dir.is_none() && self.tools.is_none() {
            let page = page::render(self.tool.command(), self.tool.section());
            return ExitCode::from(print(&page.text));
        }
        let own = self.dir.map_or(Ok(()), |dir| write_own(&dir));
        match own.and_then(|()| self.tools.map_or(Ok(()), |dir| write_tools(&OF_LUSTRE, &dir))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                complain(&format!("fulmar man: {why}; give another directory\n"));
                ExitCode::FAILURE
            }
        }
    }
}

/// Writes the pages that have names of Fulmar.
fn write_own(dir: &Path) -> Result<(), String> {
    write_tools(&[Tool::Fulmar, Tool::MountFulmar], dir)?;
    let mut fulmar = Fulmar::command().disable_help_subcommand(true);
    fulmar.build();
    let commands = fulmar.get_subcommands().filter(|command| !command.is_hide_set());
    commands.cloned().try_for_each(|command| write(&page::render(command, '1'), dir))
}

fn write_tools(tools: &[Tool], dir: &Path) -> Result<(), String> {
    tools.iter().try_for_each(|tool| write(&page::render(tool.command(), tool.section()), dir))
}

/// Writes a page where `man` finds it.
fn write(page: &page::Page, dir: &Path) -> Result<(), String> {
    let dir = dir.join(format!("man{}", page.section));
    let failed = |error: io::Error| format!("cannot write {}: {error}", dir.display());
    std::fs::create_dir_all(&dir).map_err(failed)?;
    std::fs::write(dir.join(format!("{}.{}", page.name, page.section)), &page.text).map_err(failed)
}
