//! `lfs osts`, `lfs mdts`: the targets that the configuration lists.

use fulmar_client::FsTarget;
use serde_json::{Value, json};

use super::MountArgs;
use crate::context::{Status, print};

pub(super) fn osts(args: &MountArgs) -> Status {
    match args.mount("lfs osts") {
        Ok(mount) => show(args, "OBDS:", &mount.file_system.osts),
        Err(status) => status,
    }
}

pub(super) fn mdts(args: &MountArgs) -> Status {
    match args.mount("lfs mdts") {
        Ok(mount) => show(args, "MDTS:", &mount.file_system.mdts),
        Err(status) => status,
    }
}

fn show(args: &MountArgs, heading: &str, targets: &[FsTarget]) -> Status {
    print(&match args.json {
        true => format!("{:#}\n", Value::from_iter(targets.iter().map(object))),
        false => list(heading, targets),
    })
}

fn list(heading: &str, targets: &[FsTarget]) -> String {
    let line = |target: &FsTarget| {
        let state = if target.is_active { "ACTIVE" } else { "INACTIVE" };
        format!("{}: {} {state}\n", target.index, target.uuid)
    };
    format!("{heading}\n{}", targets.iter().map(line).collect::<String>())
}

/// A target for programs.
pub(super) fn object(target: &FsTarget) -> Value {
    json!({
        "target": target.place(),
        "index": target.index,
        "uuid": target.uuid.to_string(),
        "active": target.is_active,
        "nids": target.nids,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_lustre_wire::Uuid;
    use fulmar_rpc::import::TargetKind;

    #[test]
    fn the_list_is_that_of_lfs() {
        let target = |index, is_active| FsTarget {
            kind: TargetKind::Ost,
            index,
            uuid: Uuid::new(&format!("lv-OST{index:04x}_UUID")).unwrap(),
            device: format!("lv-OST{index:04x}-osc"),
            nids: vec!["10.99.0.2@tcp".parse().unwrap()],
            is_active,
        };
        let targets = [target(0, true), target(1, true), target(26, false)];
        assert_eq!(
            list("OBDS:", &targets),
            "OBDS:\n0: lv-OST0000_UUID ACTIVE\n1: lv-OST0001_UUID ACTIVE\n\
             26: lv-OST001a_UUID INACTIVE\n"
        );
        let expected = json!({
            "target": "OST:26", "index": 26, "uuid": "lv-OST001a_UUID", "active": false,
            "nids": ["10.99.0.2@tcp"],
        });
        assert_eq!(object(&targets[2]), expected);
    }
}
