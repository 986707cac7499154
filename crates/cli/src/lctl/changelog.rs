//! `lctl changelog_register` and `changelog_deregister`: who follows the changelog of an MDT, on its node.
//! Spec: mdt-ost §14.10.

use clap::Subcommand;
use fulmar_control::api::{CallError, ChangelogDeregister, ChangelogRegister, Operation};
use fulmar_control::show::exit;

use super::{CommandResult, failed};
use crate::context::{Context, Status, complain, print};

#[derive(Debug, Subcommand)]
pub(super) enum ChangelogCommand {
    /// Register a user of the changelog
    Register(Register),
    /// Forget a user of the changelog
    Deregister(Deregister),
}

/// Register a user of the changelog of an MDT: --device lustre-MDT0000 changelog_register
///
/// The MDT records changes for it until it is deregistered. Clients read them with "lfs changelog", and clear
/// them with "lfs changelog_clear".
#[derive(Debug, clap::Args)]
pub(super) struct Register {
    /// Kinds of changes to record, such as CREAT,UNLNK or +ATIME; else all but ATIME, OPEN, GXATR, NOPEN
    #[arg(short = 'm', long, allow_hyphen_values = true)]
    mask: Option<String>,
    /// Print only the name of the user: cl1
    #[arg(short = 'n', long)]
    nameonly: bool,
    /// A name for the user, which is then cl1-NAME
    #[arg(short = 'u', long)]
    user: Option<String>,
}

/// Forget a user of the changelog of an MDT: --device lustre-MDT0000 changelog_deregister cl1
///
/// Records that no other user needs are removed.
#[derive(Debug, clap::Args)]
pub(super) struct Deregister {
    /// The user: 1, cl1 or cl1-NAME
    #[arg(required_unless_present = "user")]
    id: Option<String>,
    /// The name that it was registered with
    #[arg(short = 'u', long)]
    user: Option<String>,
}

impl ChangelogCommand {
    pub(super) fn run(self, device: Option<String>, context: &Context) -> CommandResult {
        match self {
            Self::Register(args) => args.run(device, context),
            Self::Deregister(args) => args.run(device, context),
        }
    }
}

impl Register {
    pub(super) fn run(self, device: Option<String>, context: &Context) -> CommandResult {
        let command = "changelog_register";
        let device = named(device, command)?;
        let Self { mask, nameonly, user } = self;
        let request = ChangelogRegister { device: device.clone(), user: user.clone(), mask };
        let id = call(context, command, &request)?.id;
        let user = user.filter(|name| !name.is_empty()).map(|name| format!("-{name}"));
        let name = format!("cl{id}{}", user.unwrap_or_default());
        Ok(print(&if nameonly {
            format!("{name}\n")
        } else {
            format!("{device}: Registered changelog userid '{name}'\n")
        }))
    }
}

impl Deregister {
    pub(super) fn run(self, device: Option<String>, context: &Context) -> CommandResult {
        let command = "changelog_deregister";
        let device = named(device, command)?;
        let id = self.id.as_deref().map(|text| id_of(text).ok_or(text)).transpose();
        let id = id.map_err(|text| {
            complain(&format!("error: {command}: expect <ID> or cl<ID>[-name] got '{text}'\n"));
            exit::BAD_PARAM
        })?;
        let request = ChangelogDeregister { device: device.clone(), id, user: self.user };
        let id = call(context, command, &request)?.id;
        Ok(print(&format!("{device}: Deregistered changelog user #{id}\n")))
    }
}

/// Returns the number of a user: `1`, `cl1` or `cl1-name`.
fn id_of(text: &str) -> Option<u32> {
    let number = text.strip_prefix("cl").unwrap_or(text);
    let number = number.split_once('-').map_or(number, |(number, _)| number);
    number.parse().ok().filter(|id| *id > 0)
}

/// Requires the name of an MDT.
fn named(device: Option<String>, command: &str) -> Result<String, Status> {
    device.ok_or_else(|| {
        complain(&format!("You must say '--device <MDT>' before '{command}'\n"));
        exit::BAD_PARAM
    })
}

fn call<O: Operation>(context: &Context, command: &str, request: &O) -> Result<O::Reply, Status> {
    context.client.call(request).map_err(|error| match error {
        CallError::Refused(error) if error.hint.is_none() => {
            complain(&format!("error: {command}: {}\n", error.descr));
            exit::of_errno(error.errno)
        }
        other => failed(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_its_number() {
        for (text, id) in
            [("1", Some(1)), ("cl7", Some(7)), ("cl7-robin", Some(7)), ("12-x", Some(12))]
        {
            assert_eq!(id_of(text), id, "{text}");
        }
        for text in ["", "cl", "cl0", "-1", "robin", "cl1x"] {
            assert_eq!(id_of(text), None, "{text}");
        }
    }
}
