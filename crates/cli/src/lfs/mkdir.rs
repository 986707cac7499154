//! `lfs mkdir`: directories, on the one MDT that there is.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

use crate::context::{Status, complain};

/// Make directories on a mount
///
/// The options are those of Lustre's lfs. Directories are on MDT0000 and have one stripe: other values are
/// refused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// MDT of the directories: 0, or -1 for any
    #[arg(short = 'i', long = "mdt-index", value_name = "INDEX", default_value = "-1",
        allow_hyphen_values = true, value_parser = mdt)]
    index: i64,
    /// Stripes of each directory: 1
    #[arg(short = 'c', long = "mdt-count", value_name = "N", default_value = "1",
        allow_hyphen_values = true, value_parser = count)]
    count: i64,
    /// Permissions, in octal digits, by default as of mkdir
    #[arg(short, long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
    /// Directories
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
}

fn mdt(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(index @ (-1 | 0)) => Ok(index),
        Ok(_) => {
            Err("directories are on MDT0000 only: striped metadata (DNE) is not supported"
                .to_owned())
        }
        Err(_) => Err("it is not the index of an MDT".to_owned()),
    }
}

fn count(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(count @ (0 | 1)) => Ok(count),
        Ok(_) => {
            Err("directories have one stripe: striped directories (DNE) are not supported"
                .to_owned())
        }
        Err(_) => Err("it is not a number of stripes".to_owned()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    bits.ok_or_else(|| "it is not a mode such as 0750".to_owned())
}

/// Makes directories.
pub(super) fn run(args: &Args) -> Status {
    debug_assert!((-1..=0).contains(&args.index) && (0..=1).contains(&args.count));
    let mut status = 0;
    for directory in &args.directories {
        let made = std::fs::DirBuilder::new().mode(args.mode.unwrap_or(0o777)).create(directory);
        let made = made.and_then(|()| match args.mode {
            // The mask of the process does not count for permissions that were asked for.
            Some(mode) => {
                std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode))
            }
            None => Ok(()),
        });
        if let Err(error) = made {
            complain(&format!("fulmar lfs mkdir: {}: {error}\n", directory.display()));
            let number = error.raw_os_error().and_then(|number| Status::try_from(number).ok());
            status = number.unwrap_or(1);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_file_system_has_is_accepted() {
        assert_eq!(
            (mdt("0"), mdt("-1"), count("1"), mode("0750")),
            (Ok(0), Ok(-1), Ok(1), Ok(0o750))
        );
        assert!(mdt("1").unwrap_err().contains("MDT0000 only"));
        assert!(count("-1").unwrap_err().contains("one stripe"));
        assert!(
            mdt("x").is_err()
                && count("x").is_err()
                && mode("999").is_err()
                && mode("10000").is_err()
        );
    }
}
