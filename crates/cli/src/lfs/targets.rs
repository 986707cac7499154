//! `lfs osts`, `lfs mdts`: the targets that the configuration lists.

use fulmar_client::FsTarget;
use fulmar_rpc::import::TargetKind;
use serde_json::{Value, json};

use super::whole::WholeArgs;
use crate::context::{Status, print};

/// Lists the targets of a kind.
pub(super) fn run(args: &WholeArgs, kind: TargetKind) -> Status {
    let (command, heading) = match kind {
        TargetKind::Ost => ("lfs osts", "OBDS:"),
        _ => ("lfs mdts", "MDTS:"),
    };
    let all = match args.reach(command) {
        Ok(all) => all,
        Err(status) => return status,
    };
    for whole in all {
        let targets = whole.targets(kind);
        print(&if args.json {
            format!("{:#}\n", Value::from_iter(targets.iter().map(object)))
        } else {
            list(heading, &targets)
        });
    }
    0
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
