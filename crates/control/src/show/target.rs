//! The targets of a node as `lctl dl` lists them.

use serde::{Deserialize, Serialize};

/// A target of a node, or a directory from which none is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `mgs`, `mdt` or `obdfilter`; `-` if it is not known.
    pub kind: String,
    /// Its name, such as `lv-OST0000`; `-` if it is not known.
    pub name: String,
    /// Its UUID, such as `lv-OST0000_UUID`; `-` if it is not known.
    pub uuid: String,
    /// Where its storage is.
    pub directory: String,
    /// How many clients are connected, also other targets.
    pub clients: usize,
    /// How many of their requests are executed now.
    #[serde(default)]
    pub in_hand: usize,
    /// How many of their requests wait for that.
    #[serde(default)]
    pub queued: usize,
    /// Whether it was served before its storage failed.
    pub has_stopped: bool,
    /// Why it is not served.
    pub error: Option<String>,
}

/// Returns the output of `lctl dl`: number, state, type, name, UUID and clients. The state is UP, ST if
/// the target has stopped, or -- if it was never served; then the name is the directory.
pub fn targets(targets: &[Target]) -> String {
    let line = |(number, target): (usize, &Target)| {
        let Target { kind, name, uuid, directory, clients, has_stopped, error, .. } = target;
        let (state, name) = match (error, has_stopped) {
            (None, _) => ("UP", name),
            (Some(_), true) => ("ST", name),
            (Some(_), false) => ("--", directory),
        };
        format!("{number:>3} {state} {kind} {name} {uuid} {clients}\n")
    };
    targets.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_lctl_and_show_what_is_not_served() {
        let target = |kind: &str, name: &str, has_stopped, error: Option<&str>| Target {
            kind: kind.to_owned(),
            name: name.to_owned(),
            uuid: if name == "-" { "-".to_owned() } else { format!("{name}_UUID") },
            directory: "/srv/ost1".to_owned(),
            clients: 3,
            in_hand: 0,
            queued: 0,
            has_stopped,
            error: error.map(str::to_owned),
        };
        let all = [
            target("mdt", "lv-MDT0000", false, None),
            target("obdfilter", "lv-OST0000", true, Some("full")),
            target("-", "-", false, Some("no such directory")),
        ];
        assert_eq!(
            targets(&all),
            "  0 UP mdt lv-MDT0000 lv-MDT0000_UUID 3\n  1 ST obdfilter lv-OST0000 \
             lv-OST0000_UUID 3\n  2 -- - /srv/ost1 - 3\n"
        );
    }
}
