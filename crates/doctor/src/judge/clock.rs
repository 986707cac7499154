//! Clocks.

use fulmar_text::{duration, micros};

use crate::evidence::Host;
use crate::finding::{Finding, Level, Place};
use crate::measure::ClockResult;

/// Judges the clocks of both hosts and the offset between them.
pub fn clock(hosts: &[(Place, &Host)], offset: Option<ClockResult>) -> Vec<Finding> {
    let mut found: Vec<Finding> = offset.map(difference).into_iter().collect();
    for (place, host) in hosts {
        found.extend(one(*place, host));
    }
    found
}

/// Above this, Kerberos fails and logs cannot be matched.
const OFFSET_ERROR_US: f64 = 60e6;
/// Above this, `make` and leases fail.
const OFFSET_WARNING_US: f64 = 1e6;
const OFFSET_NOTE_US: f64 = 50e3;

fn difference(seen: ClockResult) -> Finding {
    // The offset may be smaller by the error of the measurement.
    let certain = (seen.ahead_us.abs() - seen.error_us).max(0.0);
    let level = match certain {
        OFFSET_ERROR_US.. => Level::Error,
        OFFSET_WARNING_US.. => Level::Warning,
        OFFSET_NOTE_US.. => Level::Note,
        _ => Level::Ok,
    };
    let evidence = format!(
        "the remote clock is ahead by {} +- {}",
        micros(seen.ahead_us),
        micros(seen.error_us)
    );
    let finding = match level {
        Level::Ok => return Finding::ok(Place::Path, "the clocks of both hosts agree", evidence),
        _ => Finding::new(level, Place::Path, "the clocks of both hosts differ", evidence),
    };
    finding.remedy("on both hosts: chronyc makestep, and the same time servers in /etc/chrony.conf")
}

fn one(place: Place, host: &Host) -> Vec<Finding> {
    let clock = &host.clock;
    let mut found = Vec::new();
    let source = clock.source.as_deref().unwrap_or("unknown");
    let error = clock.error_max_us.map(|us| {
        let error = duration(std::time::Duration::from_micros(us));
        format!(", maximum error {error}")
    });
    let evidence = format!("clock source {source}{}", error.unwrap_or_default());
    match clock.synchronised {
        Some(false) => {
            let what = "the clock is not synchronised";
            let remedy = "systemctl enable --now chronyd";
            found.push(Finding::new(Level::Note, place, what, evidence).remedy(remedy));
        }
        Some(true) => found.push(Finding::ok(place, "the clock is synchronised", evidence)),
        None => {}
    }
    let better = ["tsc", "kvm-clock", "arch_sys_counter"];
    let better = better.iter().find(|name| clock.available.iter().any(|known| known == *name));
    if SLOW.contains(&source) {
        let what = format!("reading the clock is slow: the clock source is {source}");
        let evidence = format!("available: {}", clock.available.join(" "));
        let remedy = match better {
            Some(name) => format!(
                "echo {name} >/sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
            None => {
                "find in dmesg why the kernel disabled the TSC; it may be a firmware problem".into()
            }
        };
        found.push(Finding::new(Level::Warning, place, what, evidence).remedy(remedy));
    }
    found
}

/// Clock sources that are devices: a read takes a microsecond or more, and TCP reads the clock for
/// every packet.
const SLOW: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Clock;

    #[test]
    fn an_offset_counts_only_beyond_the_measurement_error() {
        let level = |ahead_us, error_us| {
            clock(&[], Some(ClockResult { ahead_us, error_us })).remove(0).level
        };
        assert_eq!(level(80_000.0, 50_000.0), Level::Ok);
        assert_eq!(level(-120_000.0, 25_000.0), Level::Note);
        assert_eq!(level(5e6, 25_000.0), Level::Warning);
        assert_eq!(level(-3600e6, 25_000.0), Level::Error);
    }

    #[test]
    fn an_unsynchronised_clock_and_a_slow_one_are_reported() {
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
            clock(&[(Place::Local, &host)], None).iter().map(|finding| finding.level).collect()
        };
        assert_eq!(levels(clock_of("tsc", true)), [Level::Ok]);
        assert_eq!(levels(clock_of("tsc", false)), [Level::Note]);
        assert_eq!(levels(clock_of("hpet", true)), [Level::Ok, Level::Warning]);
    }
}
