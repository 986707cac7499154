//! The node of LNet at the far end.

use fulmar_text::micros;

use crate::evidence::{LnetAnswer, LnetSeen};
use crate::finding::{Finding, Level, Place};

/// Judges what a node answered. `nid` is the one that was asked, `open` whether its port takes
/// connections.
pub fn lnet(seen: &LnetSeen, nid: &str, open: bool) -> Vec<Finding> {
    match seen {
        LnetSeen::Answered(answer) => answered(answer, nid),
        LnetSeen::NotAsked { .. } => Vec::new(),
        LnetSeen::Silent { by, why } => {
            let what = format!("{nid} does not answer as a node of LNet");
            let mend = if open {
                "is the NID one of its own (there: lctl list_nids)? It refuses source ports above \
                 1023 unless accept=all: run this as root. Its reasons are in its log: dmesg"
            } else {
                "its port takes no connection: see the check port"
            };
            let evidence = format!("{why}, asked by {by}");
            vec![Finding::new(Level::Error, Place::There, what, evidence).mend(mend)]
        }
    }
}

fn answered(answer: &LnetAnswer, nid: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let process = answer.pid.map(|pid| format!("process {pid}, ")).unwrap_or_default();
    let ping = answer.ping_us.unwrap_or(answer.first_us);
    let evidence = format!("{process}NIDs {}, ping {}", answer.nids.join(" "), micros(ping as f64));
    if !answer.nids.is_empty() && !answer.nids.iter().any(|known| known == nid) {
        let what = format!("the node that answers does not have the NID {nid}");
        let mend = "use one of its NIDs; or another host has taken its address: ip neigh";
        found.push(Finding::new(Level::Warning, Place::There, what, evidence).mend(mend));
    } else {
        found.push(Finding::ok(Place::There, format!("{nid} answers LNet pings"), evidence));
    }
    if let Some(version) = answer.socklnd {
        let what = format!("handshake of the socket LND, version {version}");
        let release = answer.release().map(|release| format!("; Lustre {release}"));
        let features = answer.feature_names.as_ref().map(|names| format!("features {names}"));
        let evidence = features.unwrap_or_default() + &release.unwrap_or_default();
        let level = if version < 3 { Level::Note } else { Level::Ok };
        found.push(Finding::new(level, Place::There, what, evidence));
    }
    if answer.source_port.is_some_and(|port| port > PRIVILEGED_MAX) {
        let what = "we called from an unprivileged port, and were taken";
        let evidence = format!("source port {}", answer.source_port.unwrap_or_default());
        let mend = "fine if that is meant (accept=all there); kernel nodes take only privileged ones \
                    by default";
        found.push(Finding::new(Level::Note, Place::There, what, evidence).mend(mend));
    }
    found
}

/// Kernel nodes take calls from ports up to this one.
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
        let found = lnet(&LnetSeen::Answered(answer), "10.0.0.5@tcp", true);
        found.into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_node_that_answers_is_fine() {
        assert_eq!(levels(answer()), [Level::Ok, Level::Ok]);
    }

    #[test]
    fn another_node_and_another_port_are_noticed() {
        let other = LnetAnswer { nids: vec!["10.9.9.9@tcp".into()], ..answer() };
        assert_eq!(levels(other)[0], Level::Warning);
        let unprivileged = LnetAnswer { source_port: Some(40_000), ..answer() };
        assert_eq!(levels(unprivileged), [Level::Ok, Level::Ok, Level::Note]);
    }

    #[test]
    fn a_node_that_is_silent_is_an_error() {
        let silent = LnetSeen::Silent { by: "us".into(), why: "no".into() };
        let found = lnet(&silent, "10.0.0.5@tcp", true);
        assert!(
            found[0].level == Level::Error && found[0].mend.as_ref().unwrap().contains("accept")
        );
    }
}
