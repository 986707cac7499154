//! The LNet node on the remote host.

use fulmar_text::micros;

use crate::evidence::{LnetAnswer, LnetResult};
use crate::finding::{Finding, Level, Place};

/// Judges the answer of a node to an LNet ping. `nid` is the pinged NID, `open` whether its port
/// accepts connections.
pub fn lnet(seen: &LnetResult, nid: &str, open: bool) -> Vec<Finding> {
    match seen {
        LnetResult::Answered(answer) => answered(answer, nid),
        LnetResult::NotSent { .. } => Vec::new(),
        LnetResult::NoAnswer { by, why } => {
            let what = format!("{nid} does not answer an LNet ping");
            let remedy = if open {
                "check on the remote host that the NID is its own (lctl list_nids) and why it \
                 refused (dmesg); a kernel node refuses source ports above 1023 unless accept=all \
                 is set: run this command as root"
            } else {
                "its port does not accept connections: see the check port"
            };
            let evidence = format!("{why}; pinged by {by}");
            vec![Finding::new(Level::Error, Place::Remote, what, evidence).remedy(remedy)]
        }
    }
}

fn answered(answer: &LnetAnswer, nid: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let process = answer.pid.map(|pid| format!("process {pid}, ")).unwrap_or_default();
    let ping = answer.ping_us.unwrap_or(answer.first_us);
    let evidence = format!("{process}NIDs {}, ping {}", answer.nids.join(" "), micros(ping as f64));
    if !answer.nids.is_empty() && !answer.nids.iter().any(|known| known == nid) {
        let what = format!("the node that answered does not have the NID {nid}");
        let remedy = "use one of its NIDs, or check for a duplicate address: ip neigh";
        found.push(Finding::new(Level::Warning, Place::Remote, what, evidence).remedy(remedy));
    } else {
        found.push(Finding::ok(Place::Remote, format!("{nid} answers LNet pings"), evidence));
    }
    if let Some(version) = answer.socklnd {
        let what = format!("socket LND protocol version {version}");
        let release = answer.release().map(|release| format!("; Lustre {release}"));
        let features = answer.feature_names.as_ref().map(|names| format!("features {names}"));
        let evidence = features.unwrap_or_default() + &release.unwrap_or_default();
        let level = if version < 3 { Level::Note } else { Level::Ok };
        found.push(Finding::new(level, Place::Remote, what, evidence));
    }
    if answer.source_port.is_some_and(|port| port > PRIVILEGED_MAX) {
        let what = "the node accepts connections from unprivileged ports";
        let evidence = format!("source port {}", answer.source_port.unwrap_or_default());
        let remedy = "no change is needed if this is intended (accept=all); the default of kernel \
                      nodes is to accept only ports up to 1023";
        found.push(Finding::new(Level::Note, Place::Remote, what, evidence).remedy(remedy));
    }
    found
}

/// Kernel nodes accept connections from source ports up to this one.
const PRIVILEGED_MAX: u16 = 1023;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> LnetAnswer {
        LnetAnswer {
            socklnd: Some(3),
            source_port: Some(1023),
            pid: Some(12345),
            features: Some(0x1b),
            nids: vec!["10.0.0.5@tcp".into()],
            ping_us: Some(80),
            ..LnetAnswer::default()
        }
    }

    fn levels(answer: LnetAnswer) -> Vec<Level> {
        let found = lnet(&LnetResult::Answered(answer), "10.0.0.5@tcp", true);
        found.into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_node_that_answers_is_fine() {
        assert_eq!(levels(answer()), [Level::Ok, Level::Ok]);
    }

    #[test]
    fn another_node_and_an_unprivileged_port_are_reported() {
        let other = LnetAnswer { nids: vec!["10.9.9.9@tcp".into()], ..answer() };
        assert_eq!(levels(other)[0], Level::Warning);
        let unprivileged = LnetAnswer { source_port: Some(40_000), ..answer() };
        assert_eq!(levels(unprivileged), [Level::Ok, Level::Ok, Level::Note]);
    }

    #[test]
    fn a_node_that_is_silent_is_an_error() {
        let silent = LnetResult::NoAnswer { by: "us".into(), why: "no".into() };
        let found = lnet(&silent, "10.0.0.5@tcp", true);
        assert!(
            found[0].level == Level::Error && found[0].remedy.as_ref().unwrap().contains("accept")
        );
    }
}
