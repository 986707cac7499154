//! TCP port 988.

use fulmar_text::micros;

use crate::evidence::{PortOutcome, PortSeen};
use crate::finding::{Finding, Level, Place};

/// Judges what came of knocking at the port of LNet.
pub fn port(seen: &PortSeen) -> Vec<Finding> {
    let (at, port) = (seen.at, seen.at.port());
    let took = micros(seen.took_us as f64);
    let finding = match &seen.outcome {
        PortOutcome::Open => {
            let what = format!("TCP port {port} takes connections");
            Finding::ok(Place::Path, what, format!("{at} after {took}"))
        }
        PortOutcome::Refused => {
            let what = format!("TCP port {port} is closed");
            let evidence = format!("{at} refused after {took}");
            let mend = "there: modprobe lnet && lnetctl lnet configure --all, or fulmar node; if a \
                        node runs there, a firewall rejects: let its port pass";
            Finding::new(Level::Error, Place::There, what, evidence).mend(mend)
        }
        PortOutcome::Silence(millis) => {
            let what = format!("TCP port {port} does not answer");
            let evidence = format!("nothing from {at} within {:.1} s", *millis as f64 / 1e3);
            let mend = format!(
                "a firewall drops, or the host is down: ping {}; there: nft list ruleset; on every \
                 firewall between, let TCP port {port} pass both ways",
                at.ip()
            );
            Finding::new(Level::Error, Place::Path, what, evidence).mend(mend)
        }
        PortOutcome::NoWay(why) => {
            let what = format!("there is no way to {}", at.ip());
            let mend = format!("ip route get {}", at.ip());
            Finding::new(Level::Error, Place::Path, what, why.clone()).mend(mend)
        }
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_and_silence_have_different_mends() {
        let judged = |outcome| {
            let seen = PortSeen { at: "10.0.0.5:988".parse().unwrap(), outcome, took_us: 100 };
            port(&seen).remove(0)
        };
        assert_eq!(judged(PortOutcome::Open).level, Level::Ok);
        let refused = judged(PortOutcome::Refused);
        assert!(refused.level == Level::Error && refused.mend.unwrap().contains("modprobe lnet"));
        let silent = judged(PortOutcome::Silence(3000));
        assert!(silent.level == Level::Error && silent.mend.unwrap().contains("firewall"));
        let lost = judged(PortOutcome::NoWay("Network is unreachable (os error 101)".into()));
        assert_eq!(lost.mend.as_deref(), Some("ip route get 10.0.0.5"));
    }
}
