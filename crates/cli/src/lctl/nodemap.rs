//! `lctl nodemap_*`: who the users of a site are in the file system, on the node of its management service.

use clap::Subcommand;
use fulmar_control::api::{MgsNodemap, MgsNodemapTest, NodemapChange, ParameterShow};
use fulmar_control::show::{Form, exit};
use fulmar_lnet_wire::Nid;

use super::{CommandResult, failed};
use crate::context::{Context, complain, print};

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "they are the names of lctl's commands")]
pub(super) enum Command {
    /// Use nodemaps, or not
    ///
    /// Before that, put all servers into a nodemap with admin and trusted set to 1.
    NodemapActivate {
        /// 1 or 0
        #[arg(value_parser = read_switch, action = clap::ArgAction::Set)]
        active: bool,
    },
    /// Make a nodemap, like the one named default
    NodemapAdd {
        /// 1 to 16 letters, digits or _
        name: String,
    },
    /// Remove a nodemap; its clients have the one named default
    NodemapDel {
        /// Its name
        name: String,
    },
    /// Add clients to a nodemap: --range 10.1.0.[1-254]@tcp
    NodemapAddRange {
        #[arg(long)]
        name: String,
        /// NIDs without gaps: 10.1.0.[1-254]@tcp, 10.1.0.0/16@tcp, fd00:1::/32@tcp, *@o2ib
        #[arg(long)]
        range: String,
    },
    /// Remove clients from a nodemap, as they were added
    NodemapDelRange {
        #[arg(long)]
        name: String,
        /// NIDs, as for nodemap_add_range
        #[arg(long)]
        range: String,
    },
    /// Set a property of a nodemap: --property squash_uid=99
    ///
    /// admin: root is root; trusted: ids are the same on both sides; deny_unknown: unknown users are refused;
    /// squash_uid, squash_gid, squash_projid: who they are otherwise; map_mode: all, both, or some of uid, gid,
    /// projid; readonly_mount, deny_mount, audit_mode, forbid_encryption; rbac: roles.
    NodemapModify {
        #[arg(long)]
        name: String,
        /// Property, or PROPERTY=VALUE
        #[arg(long)]
        property: String,
        #[arg(long)]
        value: Option<String>,
    },
    /// Map ids: --idtype uid --idmap 1000:500
    NodemapAddIdmap(Idmap),
    /// Map ids no longer
    NodemapDelIdmap(Idmap),
    /// Move all ids of clients to others in the file system: --offset 100000 --limit 100000
    NodemapAddOffset {
        #[arg(long)]
        name: String,
        /// The id in the file system of id 0 of clients
        #[arg(long)]
        offset: u32,
        /// How many ids there are
        #[arg(long)]
        limit: u32,
    },
    /// Move ids no longer
    NodemapDelOffset {
        #[arg(long)]
        name: String,
    },
    /// Give clients a directory as the root of the file system; '' for all of it
    NodemapSetFileset {
        #[arg(long)]
        name: String,
        /// Path from the root of the file system
        #[arg(long)]
        fileset: String,
    },
    /// Print nodemaps and their properties
    NodemapInfo {
        /// Print names only
        #[arg(long, conflicts_with_all = ["name", "property"])]
        list: bool,
        /// Only this nodemap
        #[arg(long)]
        name: Option<String>,
        /// Only this property
        #[arg(long)]
        property: Option<String>,
    },
    /// Print the nodemap of a client
    NodemapTestNid {
        #[arg(long)]
        nid: Nid,
    },
    /// Print the id in the file system of an id of a client
    NodemapTestId {
        #[arg(long)]
        nid: Nid,
        /// uid, gid or projid
        #[arg(long)]
        idtype: String,
        #[arg(long)]
        id: u32,
    },
}

/// Reads a switch as Lustre's lctl does.
fn read_switch(text: &str) -> Result<bool, String> {
    match text {
        "0" | "off" | "false" | "f" | "no" | "n" => Ok(false),
        "1" | "on" | "true" | "t" | "yes" | "y" => Ok(true),
        _ => Err("write 1 or 0".to_owned()),
    }
}

/// Ids of clients and what they are in the file system.
#[derive(Debug, clap::Args)]
pub(super) struct Idmap {
    #[arg(long)]
    name: String,
    /// uid, gid or projid
    #[arg(long)]
    idtype: String,
    /// CLIENT:FS, or ranges CLIENT-CLIENT:FS[-FS]
    #[arg(long)]
    idmap: String,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> CommandResult {
        type C = NodemapChange;
        let (name, change) = match self {
            Self::NodemapActivate { active } => (String::new(), C::Activate(active)),
            Self::NodemapAdd { name } => (name, C::Add),
            Self::NodemapDel { name } => (name, C::Del),
            Self::NodemapAddRange { name, range } => (name, C::AddRange(range)),
            Self::NodemapDelRange { name, range } => (name, C::DelRange(range)),
            Self::NodemapModify { name, property, value } => {
                let (property, value) = match (property.split_once('='), value) {
                    (Some((property, value)), None) => (property.to_owned(), value.to_owned()),
                    (None, Some(value)) => (property, value),
                    _ => {
                        complain("nodemap_modify: write --property NAME=VALUE\n");
                        return Err(exit::BAD_PARAM);
                    }
                };
                (name, C::Modify(property, value))
            }
            Self::NodemapAddIdmap(map) => (map.name, C::AddIdmap(map.idtype, map.idmap)),
            Self::NodemapDelIdmap(map) => (map.name, C::DelIdmap(map.idtype, map.idmap)),
            Self::NodemapAddOffset { name, offset, limit } => (name, C::AddOffset(offset, limit)),
            Self::NodemapDelOffset { name } => (name, C::DelOffset),
            Self::NodemapSetFileset { name, fileset } => (name, C::SetFileset(fileset)),
            Self::NodemapInfo { list, name, property } => {
                return info(list, name.as_deref(), property.as_deref(), context);
            }
            Self::NodemapTestNid { nid } => return test(nid, None, context),
            Self::NodemapTestId { nid, idtype, id } => {
                return test(nid, Some((idtype, id)), context);
            }
        };
        context.client.call(&MgsNodemap { name, change }).map_err(failed)?;
        Ok(0)
    }
}

fn test(nid: Nid, id: Option<(String, u32)>, context: &Context) -> CommandResult {
    let tested = context.client.call(&MgsNodemapTest { nid, id }).map_err(failed)?;
    let text = tested.id.map_or(tested.name, |id| id.to_string());
    Ok(print(&format!("{text}\n")))
}

fn info(
    list: bool,
    name: Option<&str>,
    property: Option<&str>,
    context: &Context,
) -> CommandResult {
    let pattern = match (name, property) {
        (None, None) => "nodemap.active".to_owned(),
        _ => String::new(),
    };
    let each = format!("nodemap.{}.{}", name.unwrap_or("*"), property.unwrap_or("*"));
    let request = ParameterShow { patterns: vec![pattern, each], modules: false };
    let found = context.client.call(&request).map_err(failed)?;
    if found.is_empty() {
        complain("error: nodemap_info: there is no such nodemap or property on this node\n");
        return Err(exit::FAILED);
    }
    if !list {
        for parameter in &found {
            print(&Form::Both.text(&parameter.name.join("."), &parameter.value));
        }
        return Ok(0);
    }
    let is_active = found.iter().any(|one| one.name.len() == 2 && one.value.starts_with('1'));
    let state = if is_active { "active" } else { "inactive" };
    let mut names: Vec<&str> =
        found.iter().filter(|one| one.name.len() == 3).map(|one| &*one.name[1]).collect();
    names.dedup();
    let names: String = names.iter().map(|name| format!("\t{name}\n")).collect();
    Ok(print(&format!("Global nodemap state:\n\t{state}\n\nDefined nodemaps:\n{names}")))
}
