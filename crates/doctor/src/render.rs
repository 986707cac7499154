//! The report as text, at most 100 columns wide.

use std::fmt::Write;

use fulmar_text::{
    Table, bit_rate, bytes, count, hanging, left, micros, or_unknown, percent, printable,
    printable_lines, right, wrap,
};

use crate::finding::{Check, CheckResult, Finding, Level, Report};

/// Width of the report, in columns.
const WIDTH: usize = 100;
/// The column where the text of a finding starts.
const INDENT: usize = 20;

/// Returns the report as text.
pub fn report(report: &Report) -> String {
    let mut text = head(report);
    text += &tables(report);
    for level in Level::ALL {
        let found = entries(report, level);
        if !found.is_empty() {
            let _ = writeln!(text, "\n{}", heading(level, found.len()));
        }
        for (check, finding, both) in found {
            text += &entry(check, finding, both);
        }
    }
    text += &not_examined(&report.checks);
    text += &last(report);
    printable_lines(&text)
}

/// Returns the findings of a level. One that is the same on both hosts appears once, with `true`.
fn entries(report: &Report, level: Level) -> Vec<(Check, &Finding, bool)> {
    let mut entries: Vec<(Check, &Finding, bool)> = Vec::new();
    for (check, finding) in report.at_level(level) {
        let twin = |other: &&mut (Check, &Finding, bool)| {
            other.0 == check && Finding { place: finding.place, ..other.1.clone() } == *finding
        };
        match entries.iter_mut().find(twin) {
            Some((.., both)) => *both = true,
            None => entries.push((check, finding, false)),
        }
    }
    entries
}

/// Returns the progress line of a finished check.
pub fn progress(checked: &CheckResult) -> String {
    let worst = checked.worst();
    let worst_finding = checked.findings.iter().find(|finding| Some(finding.level) == worst);
    let (word, what) = match (worst, worst_finding) {
        (Some(level), Some(finding)) => (level.word(), finding.what.clone()),
        _ => match &checked.not_examined {
            Some(why) => ("-", format!("not checked: {why}")),
            None => ("-", "nothing to check".to_owned()),
        },
    };
    let took = checked.took_ms as f64 / 1e3;
    let line = format!("  {:<11}{word:<9}{took:>5.1} s  {what}", checked.check.word());
    let mut line = printable(&line);
    if line.chars().count() > WIDTH {
        line = line.chars().take(WIDTH - 3).collect::<String>() + "...";
    }
    line
}

fn heading(level: Level, count: usize) -> String {
    let word = match (level, count) {
        (Level::Error, 1) => "ERROR",
        (Level::Error, _) => "ERRORS",
        (Level::Warning, 1) => "WARNING",
        (Level::Warning, _) => "WARNINGS",
        (Level::Note, 1) => "NOTE",
        (Level::Note, _) => "NOTES",
        (Level::Ok, _) => "OK",
    };
    format!("{word} ({count})")
}

fn head(report: &Report) -> String {
    let host = |host: &crate::evidence::Host| {
        let device = host.path_device().map(|device| format!(", {}", device.name));
        printable(&format!(
            "{} (Linux {}, Fulmar {}{})",
            host.name,
            host.kernel,
            host.fulmar,
            device.unwrap_or_default()
        ))
    };
    let mut text = format!("local      {}\n", host(&report.local));
    if let Some(target) = &report.target {
        let name = match &report.remote {
            Some(remote) => host(remote),
            None => "\"fulmar doctor serve\" does not run there".to_owned(),
        };
        let _ = writeln!(text, "remote     {} at {}: {name}", target.nid, target.address);
    }
    if let Some(round_trip) = report.measured.round_trip_us {
        let mtu = report.measured.mtu.and_then(|seen| Some((seen.out?, seen.back?)));
        let mtu = mtu.map(|(out, back)| format!(", path MTU {out} outbound and {back} inbound"));
        let _ = writeln!(
            text,
            "path       round trip {}{}",
            micros(round_trip),
            mtu.unwrap_or_default()
        );
    }
    text
}

fn tables(report: &Report) -> String {
    let mut text = String::new();
    let measured = &report.measured;
    if !measured.tcp.is_empty() {
        let mut table = Table::new([
            left("TCP"),
            right("streams"),
            right("rate"),
            right("retransmits"),
            right("window"),
            right("rwnd limited"),
            right("sndbuf limited"),
            right("RTT loaded"),
        ]);
        for run in &measured.tcp {
            let loaded = or_unknown(run.loaded, |spread| micros(spread.median_us));
            table.row([
                run.direction.word().to_owned(),
                run.streams.to_string(),
                bit_rate(run.settled),
                percent(run.retransmitted()),
                bytes(run.sender.window),
                percent(run.limited(run.sender.receiver_limited_us)),
                percent(run.limited(run.sender.buffer_limited_us)),
                loaded,
            ]);
        }
        let _ = write!(text, "\n{table}");
    }
    if !measured.latency.is_empty() {
        let numbers = ["median", "min", "95th pct", "max", "rate"].map(right);
        let mut table = Table::new([left("one way")].into_iter().chain(numbers));
        for row in &measured.latency {
            table.row([
                bytes(row.size.into()),
                micros(row.one_way.median_us),
                micros(row.one_way.min_us),
                micros(row.one_way.p95_us),
                micros(row.one_way.max_us),
                bit_rate(row.rate),
            ]);
        }
        let _ = write!(text, "\n{table}");
    }
    text
}

fn entry(check: Check, finding: &Finding, both: bool) -> String {
    let mut text = String::new();
    let place = if both { "both" } else { finding.place.word() };
    let mut lines = wrap(&finding.what, WIDTH - INDENT);
    if finding.level == Level::Ok {
        lines = wrap(&format!("{}: {}", finding.what, finding.evidence), WIDTH - INDENT);
    } else {
        lines.extend(wrap(&finding.evidence, WIDTH - INDENT));
    }
    let mut start = format!("  {:<10} {place:<7}", check.word());
    for line in lines {
        let _ = writeln!(text, "{start:<INDENT$}{line}");
        start = String::new();
    }
    if let Some(remedy) = &finding.remedy {
        text += &hanging(&format!("{:INDENT$}-> ", ""), remedy, WIDTH);
    }
    text
}

fn not_examined(checks: &[CheckResult]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for checked in checks {
        let Some(why) = &checked.not_examined else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, words)) => words.push(checked.check.word()),
            None => reasons.push((why, vec![checked.check.word()])),
        }
    }
    let mut text = String::new();
    if !reasons.is_empty() {
        text += "\nNOT CHECKED\n";
    }
    for (why, words) in reasons {
        let words = words.join(", ");
        for (number, line) in wrap(&format!("{words}: {why}"), WIDTH - 4).iter().enumerate() {
            let _ = writeln!(text, "{:1$}{line}", "", if number == 0 { 2 } else { 4 });
        }
    }
    text
}

fn last(report: &Report) -> String {
    let counted = |level: Level, word: &str| count(entries(report, level).len() as u64, word);
    let mut text = format!(
        "\n{}, {}, {}; {} checks in {:.0} s.\n",
        counted(Level::Error, "error"),
        counted(Level::Warning, "warning"),
        counted(Level::Note, "note"),
        report.checks.len(),
        report.seconds
    );
    if report.target.is_none() && report.checks.iter().all(|checked| checked.not_examined.is_none())
    {
        text += "Only the local host was examined. To examine a path, run \"fulmar doctor serve\" \
                 on one host and\n\"fulmar doctor <that host>\" on the other.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Host;
    use crate::finding::{Measurements, Place};
    use crate::measure::{Direction, TcpRun};
    use crate::remote::StreamStats;

    fn sample() -> Report {
        let long =
            "a sentence that is so long that it does not fit on one line after its check and place";
        let finding =
            Finding::new(Level::Warning, Place::Remote, long, "numbers\x1b[2J").remedy("do it");
        let checked = |check, findings, not_examined| CheckResult {
            check,
            took_ms: 1500,
            findings,
            not_examined,
        };
        let run = TcpRun {
            direction: Direction::Out,
            streams: 4,
            bytes: 1 << 30,
            seconds: 1.0,
            mean: 8e9,
            settled: 9e9,
            sender: StreamStats::default(),
            loaded: None,
        };
        Report {
            version: 1,
            fulmar: "0.1.0".into(),
            at: 0,
            seconds: 20.0,
            target: None,
            worst: Level::Warning,
            checks: vec![
                checked(Check::Tcp, vec![finding], None),
                checked(Check::Udp, vec![], Some("no server".into())),
                checked(Check::Mtu, vec![], Some("no server".into())),
            ],
            measured: Measurements { tcp: vec![run], ..Measurements::default() },
            local: Host { name: "a".into(), ..Host::default() },
            remote: None,
        }
    }

    #[test]
    fn findings_are_grouped_by_level_in_100_columns_without_terminal_escapes() {
        let text = report(&sample());
        assert!(text.contains("WARNING (1)\n  tcp        remote "), "{text}");
        assert!(text.contains("numbers?[2J") && text.contains("-> do it"), "{text}");
        assert!(text.contains("  udp, mtu: no server"), "{text}");
        assert!(text.contains("9 Gbit/s") && text.contains("0 errors, 1 warning,"), "{text}");
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= WIDTH, "{longest} columns:\n{text}");
    }

    #[test]
    fn a_finding_of_both_hosts_appears_and_counts_once() {
        let note = |place| Finding::new(Level::Note, place, "a small thing", "5");
        let mut sample = sample();
        sample.checks[1].findings = vec![note(Place::Local), note(Place::Remote)];
        let text = report(&sample);
        assert!(text.contains("NOTE (1)\n  udp        both   a small thing"), "{text}");
        assert!(text.contains("1 warning, 1 note;"), "{text}");
    }

    #[test]
    fn a_finished_check_is_one_line() {
        let report = sample();
        let line = progress(&report.checks[0]);
        assert!(
            line.starts_with("  tcp        warning    1.5 s  a sentence") && line.len() <= WIDTH
        );
        assert!(progress(&report.checks[1]).ends_with("not checked: no server"));
    }
}
