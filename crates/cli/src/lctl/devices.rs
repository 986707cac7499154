//! `lctl dl`: the targets of the node, or the devices of a client of a file system that is not mounted.

use fulmar_client::{Address, FsTarget, Members};
use fulmar_control::api::TargetShow;
use fulmar_control::show;
use fulmar_lnet_wire::Nid;
use fulmar_rpc::import::TargetKind;
use serde_json::{Value, json};

use super::{CommandResult, failed};
use crate::context::{Context, Status, complain, print};
use crate::lfs::{Mount, MountArgs, ReachArgs};

/// List the targets of the node, or the devices that a client of a file system has
///
/// Without a file system: the targets that the node serves (UP), those that it had to stop (ST), and
/// directories from which it serves nothing (--). Standard error says why. "fulmar target" starts and
/// stops them.
///
/// Of a file system, devices are those of a client that mounts the file system: one for the MGS, one for each target,
/// and those that unite the targets. A device that the configuration switches off is IN. The last
/// number is how many others use the device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Connect to the targets, and print the NID of each connection
    #[arg(short = 't', long, requires = "address")]
    connections: bool,
    /// NIDs of the MGS and name of the file system, as for mount: 10.0.0.1@tcp:/lustre
    #[arg(value_name = "MGS:/NAME")]
    address: Option<Address>,
    #[command(flatten)]
    reach: ReachArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "Examples:
  fulmar lctl dl
  fulmar lctl dl -t 10.0.0.1@tcp:/lustre";

/// A device of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Device {
    kind: &'static str,
    name: String,
    is_active: bool,
    uses: usize,
    /// Where it is connected.
    nid: Option<Nid>,
}

pub(super) fn run(args: &Args, context: &Context) -> CommandResult {
    match &args.address {
        Some(address) => Ok(of_client(args, MountArgs::new(address, &args.reach))),
        None => of_node(args, context),
    }
}

/// Lists the targets of the node.
fn of_node(args: &Args, context: &Context) -> CommandResult {
    let targets = context.client.call(&TargetShow {}).map_err(failed)?;
    if args.json {
        let json = serde_json::to_string_pretty(&targets).expect("they are plain values");
        return Ok(print(&(json + "\n")));
    }
    let printed = print(&show::targets(&targets));
    for target in &targets {
        let Some(why) = &target.error else { continue };
        let name = if target.has_stopped { &target.name } else { &target.directory };
        complain(&format!("lctl dl: {name} is not served: {why}\n"));
    }
    Ok(printed)
}

/// Lists the devices of a client.
fn of_client(args: &Args, from: MountArgs) -> Status {
    let mut mount = match from.mount("lctl dl") {
        Ok(mount) => mount,
        Err(status) => return status,
    };
    let targets: Vec<FsTarget> = mount.file_system.targets().cloned().collect();
    let connected = args.connections.then(|| mount.session.connect_targets(&targets));
    let device = from.mgs_device();
    let devices = devices((args, device), &mount, &targets, connected.as_ref());
    let uuid = mount.session.uuid().to_string();
    print(&if args.json {
        let object = |device: &Device| object(device, &uuid);
        format!("{:#}\n", Value::from_iter(devices.iter().map(object)))
    } else {
        list(&devices, &uuid)
    })
}

fn devices(
    (args, mgs): (&Args, String),
    mount: &Mount,
    targets: &[FsTarget],
    connected: Option<&Members>,
) -> Vec<Device> {
    let (session, file_system) = (&mount.session, &mount.file_system);
    let device = |kind, name, uses| Device { kind, name, is_active: true, uses, nid: None };
    let unite = |kind, name: &str, members: usize| {
        device(kind, session.device(&format!("{}-{name}", file_system.name)), members)
    };
    let nid = session.nid(mount.mgs).filter(|_| args.connections);
    let mut devices = vec![
        Device { nid, ..device("mgc", mgs, 1) },
        unite("lov", "clilov", file_system.osts.len()),
        unite("lmv", "clilmv", file_system.mdts.len()),
    ];
    let answers = connected.map(|members| members.ping(session));
    for (place, target) in targets.iter().enumerate() {
        let kind = match target.kind {
            TargetKind::Ost => "osc",
            _ => "mdc",
        };
        let answers = answers.as_ref().is_some_and(|answers| answers[place].is_ok());
        let import = connected.and_then(|members| members.0[place].import.ok());
        let nid = import.filter(|_| answers).and_then(|import| session.nid(import));
        let is_active = target.is_active;
        devices.push(Device { is_active, nid, ..device(kind, session.device_of(target), 1) });
    }
    devices
}

fn list(devices: &[Device], uuid: &str) -> String {
    let line = |(number, device): (usize, &Device)| {
        let Device { kind, name, is_active, uses, nid } = device;
        let state = if *is_active { "UP" } else { "IN" };
        // lctl prints the connections of targets only.
        let shown = nid.filter(|_| *kind != "mgc");
        let nid = shown.map_or_else(String::new, |nid| format!(" {nid}"));
        format!("{number:>3} {state} {kind} {name} {uuid} {uses}{nid}\n")
    };
    devices.iter().enumerate().map(line).collect()
}

fn object(device: &Device, uuid: &str) -> Value {
    let Device { kind, name, is_active, uses, nid } = device;
    json!({
        "kind": kind, "name": name, "uuid": uuid, "active": is_active, "uses": uses,
        "connection": nid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_lctl() {
        let device = |kind, name: &str, is_active, nid: Option<&str>| Device {
            kind,
            name: name.to_owned(),
            is_active,
            uses: 5,
            nid: nid.map(|nid| nid.parse().unwrap()),
        };
        let devices = [
            device("mgc", "MGC10.99.0.2@tcp", true, Some("10.99.0.2@tcp")),
            device("osc", "lv-OST0000-osc-ff110000077c3800", false, Some("10.99.0.2@tcp")),
        ];
        let uuid = "8aa6df13-49e2-4899-af59-40e344c8e0aa";
        assert_eq!(
            list(&devices, uuid),
            "  0 UP mgc MGC10.99.0.2@tcp 8aa6df13-49e2-4899-af59-40e344c8e0aa 5\n  1 IN osc \
             lv-OST0000-osc-ff110000077c3800 8aa6df13-49e2-4899-af59-40e344c8e0aa 5 10.99.0.2@tcp\n"
        );
        for device in &devices {
            assert_eq!(object(device, uuid)["connection"], "10.99.0.2@tcp");
        }
    }
}
