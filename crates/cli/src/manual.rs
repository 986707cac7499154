//! `fulmar completion` and `fulmar man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Fulmar;
use crate::context::{complain, print};

/// Print a shell completion script
///
/// For bash: fulmar completion bash > /etc/bash_completion.d/fulmar
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write all of them
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write a page for each command into this directory, such as /usr/share/man/man1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Completion {
    pub(crate) fn print(self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Fulmar::command(), "fulmar", &mut script);
        ExitCode::from(print(&String::from_utf8_lossy(&script)))
    }
}

impl Man {
    pub(crate) fn write(self) -> ExitCode {
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Fulmar::command()).render(&mut page);
            rendered.expect("writing to memory does not fail");
            return ExitCode::from(print(&String::from_utf8_lossy(&page)));
        };
        match clap_mangen::generate_to(Fulmar::command(), &dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let dir = dir.display();
                complain(&format!(
                    "fulmar: cannot write manual pages to {dir}: {error}; create the directory, or \
                     give another one with --dir\n"
                ));
                ExitCode::FAILURE
            }
        }
    }
}
