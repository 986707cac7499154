//! Clocks.

use fulmar_text::{duration, micros};

use crate::evidence::Host;
use crate::finding::{Finding, Level, Place};
use crate::measure::ClockSeen;

/// Judges the clocks of both hosts, and how far they are apart.
pub fn clock(hosts: &[(Place, &Host)], apart: Option<ClockSeen>) -> Vec<Finding> {
    let mut found: Vec<Finding> = apart.map(difference).into_iter().collect();
    for (place, host) in hosts {
        found.extend(one(*place, host));
    }
    found
}

/// Kerberos and logs bear less than this; `make` and leases less than a second.
const APART_ERROR_US: f64 = 60e6;
const APART_WARNING_US: f64 = 1e6;
const APART_NOTE_US: f64 = 50e3;

fn difference(seen: ClockSeen) -> Finding {
    // Only what is certain counts.
    let certain = (seen.ahead_us.abs() - seen.error_us).max(0.0);
    let level = match certain {
        APART_ERROR_US.. => Level::Error,
        APART_WARNING_US.. => Level::Warning,
        APART_NOTE_US.. => Level::Note,
        _ => Level::Ok,
    };
    let evidence =
        format!("the far clock is ahead by {} +- {}", micros(seen.ahead_us), micros(seen.error_us));
    let finding = match level {
        Level::Ok => return Finding::ok(Place::Path, "both clocks agree", evidence),
        _ => Finding::new(level, Place::Path, "both clocks differ", evidence),
    };
    finding.mend("at both ends: chronyc makestep, and the same time servers in /etc/chrony.conf")
}

fn one(place: Place, host: &Host) -> Vec<Finding> {
    let clock = &host.clock;
    let mut found = Vec::new();
    let source = clock.source.as_deref().unwrap_or("unknown");
    let error = clock.error_max_us.map(|us| {
        let error = duration(std::time::Duration::from_micros(us));
        format!(", wrong by {error} at most")
    });
    let evidence = format!("counts by {source}{}", error.unwrap_or_default());
    match clock.synchronised {
        Some(false) => {
            let what = "nothing keeps the clock right";
            let mend = "systemctl enable --now chronyd";
            found.push(Finding::new(Level::Note, place, what, evidence).mend(mend));
        }
        Some(true) => found.push(Finding::ok(place, "the clock is kept right", evidence)),
        None => {}
    }
    let better = ["tsc", "kvm-clock", "arch_sys_counter"];
    let better = better.iter().find(|name| clock.available.iter().any(|known| known == *name));
    if SLOW.contains(&source) {
        let what = format!("reading the clock is slow: it counts by {source}");
        let evidence = format!("available: {}", clock.available.join(" "));
        let mend = match better {
            Some(name) => format!(
                "echo {name} >/sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
            None => "see dmesg for why the processor's own counter was given up: firmware?".into(),
        };
        found.push(Finding::new(Level::Warning, place, what, evidence).mend(mend));
    }
    found
}

/// Sources that are a device away: each look at the clock costs a microsecond or more, and TCP
/// looks at it for every packet.
const SLOW: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Clock;

    #[test]
    fn only_a_difference_that_is_certain_counts() {
        let level =
            |ahead_us, error_us| clock(&[], Some(ClockSeen { ahead_us, error_us })).remove(0).level;
        assert_eq!(level(80_000.0, 50_000.0), Level::Ok);
        assert_eq!(level(-120_000.0, 25_000.0), Level::Note);
        assert_eq!(level(5e6, 25_000.0), Level::Warning);
        assert_eq!(level(-3600e6, 25_000.0), Level::Error);
    }

    #[test]
    fn a_clock_that_nobody_keeps_and_one_that_is_slow_are_told() {
        let clock_of = |source: &str, synchronised| Host {
            clock: Clock {
                source: Some(source.into()),
                available: vec!["tsc".into(), "hpet".into()],
                synchronised: Some(synchronised),
                error_max_us: None,
            },
            ..Host::default()
        };
        let levels = |host: Host| -> Vec<Level> {
            clock(&[(Place::Here, &host)], None).iter().map(|finding| finding.level).collect()
        };
        assert_eq!(levels(clock_of("tsc", true)), [Level::Ok]);
        assert_eq!(levels(clock_of("tsc", false)), [Level::Note]);
        assert_eq!(levels(clock_of("hpet", true)), [Level::Ok, Level::Warning]);
    }
}
