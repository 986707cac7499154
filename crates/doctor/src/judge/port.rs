//! TCP port 988.

use fulmar_text::micros;

use crate::evidence::{PortOutcome, PortResult};
use crate::finding::{Finding, Level, Place};

/// Judges the connection attempt to LNet's port.
pub fn port(seen: &PortResult) -> Vec<Finding> {
    let (at, port) = (seen.at, seen.at.port());
    let took = micros(seen.took_us as f64);
    let finding = match &seen.outcome {
        PortOutcome::Open => {
            let what = format!("TCP port {port} accepts connections");
            Finding::ok(Place::Path, what, format!("{at} after {took}"))
        }
        PortOutcome::Refused => {
            let what = format!("TCP port {port} is closed");
            let evidence = format!("{at} refused the connection after {took}");
            let remedy = "start a node on the remote host: modprobe lnet && lnetctl lnet \
                          configure --all, or fulmar node; if one runs, a firewall rejects the \
                          connection: open its port";
            Finding::new(Level::Error, Place::Remote, what, evidence).remedy(remedy)
        }
        PortOutcome::Timeout(millis) => {
            let what = format!("TCP port {port} does not answer");
            let evidence = format!("no answer from {at} within {:.1} s", *millis as f64 / 1e3);
            let remedy = format!(
                "a firewall drops the packets, or the host is down: ping {}; on the remote host: \
                 nft list ruleset; let TCP port {port} pass in both directions on every firewall \
                 of the path",
                at.ip()
            );
            Finding::new(Level::Error, Place::Path, what, evidence).remedy(remedy)
        }
        PortOutcome::NoRoute(why) => {
            let what = format!("there is no route to {}", at.ip());
            let remedy = format!("ip route get {}", at.ip());
            Finding::new(Level::Error, Place::Path, what, why.clone()).remedy(remedy)
        }
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_and_a_timeout_have_different_remedies() {
        let judged = |outcome| {
            let seen = PortResult { at: "10.0.0.5:988".parse().unwrap(), outcome, took_us: 100 };
            port(&seen).remove(0)
        };
        assert_eq!(judged(PortOutcome::Open).level, Level::Ok);
        let refused = judged(PortOutcome::Refused);
        assert!(refused.level == Level::Error && refused.remedy.unwrap().contains("modprobe lnet"));
        let silent = judged(PortOutcome::Timeout(3000));
        assert!(silent.level == Level::Error && silent.remedy.unwrap().contains("firewall"));
        let lost = judged(PortOutcome::NoRoute("Network is unreachable (os error 101)".into()));
        assert_eq!(lost.remedy.as_deref(), Some("ip route get 10.0.0.5"));
    }
}
