//! Output of a link, as a table or as JSON.

use std::io::Write;
use std::time::{Duration, Instant};

use fulmar_link::{Counters, DIRECTIONS, Line};
use fulmar_text::{Table, bytes, fixed, grouped, left, right};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

/// The display of a link.
pub(super) struct Show {
    form: Form,
    lines: [Line; 2],
    begun: Instant,
    last: (Duration, [Counters; 2]),
}

#[derive(Clone, Debug)]
enum Form {
    /// A table at the end; on a terminal it is also redrawn every second.
    Table(ProgressBar),
    Json,
}

impl Show {
    pub(super) fn new(json: bool, lines: [Line; 2]) -> Self {
        let live = || {
            // The bar is hidden where standard output is not a terminal.
            let live = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            live.with_style(ProgressStyle::with_template("{msg}").expect("the template is valid"))
        };
        let form = if json { Form::Json } else { Form::Table(live()) };
        let last = (Duration::ZERO, [Counters::default(); 2]);
        Self { form, lines, begun: Instant::now(), last }
    }

    /// Reports that the link is up, with `notes` for people.
    pub(super) fn started(&mut self, notes: &[String]) {
        match self.form {
            Form::Json => {
                let [ab, ba] = self.lines.map(|line| {
                    let mut value = json!(line);
                    value["queue_bytes"] = json!(line.queue_bytes());
                    value
                });
                print(&format!("{}\n", json!({"started": {"a_to_b": ab, "b_to_a": ba}})));
            }
            Form::Table(_) => print(&format!("{}\n{}\n", describe(&self.lines), notes.join("\n"))),
        }
    }

    /// Shows the counters; it is called once a second.
    pub(super) fn second(&mut self, counters: [Counters; 2]) {
        let now = self.begun.elapsed();
        let rates = rates(&self.last.1, &counters, now.saturating_sub(self.last.0));
        match &self.form {
            Form::Table(live) => live.set_message(table(&counters, rates)),
            Form::Json => print(&format!("{}\n", as_json("second", now, &counters, rates))),
        }
        self.last = (now, counters);
    }

    /// Shows the totals at the end of the link.
    pub(super) fn ended(&mut self, counters: [Counters; 2]) {
        print(&self.totals("\n", counters));
    }

    /// Shows the totals after a command, on standard error: standard output is the command's.
    pub(super) fn command_ended(&mut self, counters: [Counters; 2]) {
        crate::context::complain(&self.totals("The link: ", counters));
    }

    fn totals(&self, start: &str, counters: [Counters; 2]) -> String {
        let now = self.begun.elapsed();
        let rates = rates(&Default::default(), &counters, now);
        match &self.form {
            Form::Json => format!("{}\n", as_json("ended", now, &counters, rates)),
            Form::Table(live) => {
                live.finish_and_clear();
                let seconds = now.as_secs_f64();
                format!("{start}{seconds:.1} s in all\n{}", table(&counters, rates))
            }
        }
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // The link continues after the reader of the output has closed it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the rates of arrived data in bits per second.
fn rates(before: &[Counters; 2], now: &[Counters; 2], time: Duration) -> [f64; 2] {
    let rate = |which: usize| {
        let bytes = now[which].delivered_bytes - before[which].delivered_bytes;
        if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / time.as_secs_f64() }
    };
    [rate(0), rate(1)]
}

/// Describes the lines.
fn describe(lines: &[Line; 2]) -> String {
    let [there, back] = lines;
    if there == back {
        format!("Each direction: {}", words(there))
    } else {
        format!("A to B: {}\nB to A: {}", words(there), words(back))
    }
}

fn words(line: &Line) -> String {
    let ms = |time: Duration| format!("{}ms", time.as_nanos() as f64 / 1e6);
    let mut text =
        format!("rate {} delay {} queue {}", line.rate, ms(line.delay), bytes(line.queue_bytes()));
    if !line.jitter.is_zero() {
        text += &format!(" jitter {}", ms(line.jitter));
    }
    if line.loss.0 > 0.0 {
        text += &format!(" loss {}%", line.loss.0 * 100.0);
    }
    if line.reorder.0 > 0.0 {
        text += &format!(" reorder {}% by {}", line.reorder.0 * 100.0, ms(line.reorder_by));
    }
    text
}

/// Returns a heading and a row for each direction.
fn table(counters: &[Counters; 2], rates: [f64; 2]) -> String {
    let columns = [
        ("Gbit/s", 7),
        ("segments", 11),
        ("queue", 8),
        ("queue max", 9),
        ("overflow", 8),
        ("lost", 8),
        ("reordered", 9),
        ("late (worst)", 14),
    ];
    let columns = columns.map(|(heading, width)| right(heading).at_least(width));
    let mut table = Table::new([left("direction")].into_iter().chain(columns));
    for (which, of) in counters.iter().enumerate() {
        table.row([
            DIRECTIONS[which].to_owned(),
            fixed(rates[which] / 1e9, 3),
            grouped(of.delivered),
            bytes(of.queue_bytes),
            bytes(of.queue_max_bytes),
            grouped(of.overflowed),
            grouped(of.lost),
            grouped(of.reordered),
            format!("{:.0} ({:.0}) µs", of.lateness_mean_us, of.lateness_max_us),
        ]);
    }
    format!("{table}{}", warnings(counters))
}

/// Returns a warning for each kind of unintended loss.
fn warnings(counters: &[Counters; 2]) -> String {
    let mut text = String::new();
    for (direction, of) in DIRECTIONS.iter().zip(counters) {
        if of.missed > 0 {
            let missed = of.missed;
            text += &format!(
                "{direction}: {missed} packets dropped: this machine is too busy for the rate\n"
            );
        }
        if of.refused > 0 {
            let refused = of.refused;
            text += &format!("{direction}: {refused} segments dropped: the device is down\n");
        }
    }
    text
}

fn as_json(event: &str, now: Duration, counters: &[Counters; 2], rates: [f64; 2]) -> Value {
    let direction = |which: usize| {
        let mut value = json!(counters[which]);
        value["bits_per_second"] = json!(rates[which].round());
        value
    };
    let seconds = (now.as_secs_f64() * 1e3).round() / 1e3;
    json!({ event: { "seconds": seconds, "a_to_b": direction(0), "b_to_a": direction(1) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried() -> [Counters; 2] {
        let there = Counters {
            packets: 20,
            entered: 143,
            delivered: 130,
            delivered_bytes: 1_250_000_000,
            lost: 2,
            overflowed: 1,
            under_way: 10,
            queue_bytes: 0,
            queue_max_bytes: 63_125_000,
            lateness_mean_us: 3.9,
            lateness_max_us: 1101.2,
            ..Counters::default()
        };
        [there, Counters { delivered: 7, delivered_bytes: 630, missed: 3, ..Counters::default() }]
    }

    #[test]
    fn the_table_is_aligned_and_warns_of_dropped_packets() {
        let rates = rates(&Default::default(), &carried(), Duration::from_secs(1));
        let expected = "\
direction   Gbit/s     segments     queue  queue max  overflow      lost  reordered    late (worst)
a to b      10.000          130       0 B   60.2 MiB         1         2          0     4 (1101) µs
b to a       0.000            7       0 B        0 B         0         0          0        0 (0) µs
b to a: 3 packets dropped: this machine is too busy for the rate
";
        assert_eq!(table(&carried(), rates), expected);
    }

    #[test]
    fn json_has_every_counter() {
        let value = as_json("second", Duration::from_millis(1500), &carried(), [8e9, 0.0]);
        let second = &value["second"];
        assert_eq!(second["seconds"], 1.5);
        assert_eq!(second["a_to_b"]["bits_per_second"], 8e9);
        assert_eq!(second["a_to_b"]["queue_max_bytes"], 63_125_000);
        assert_eq!(second["b_to_a"]["missed"], 3);
    }

    #[test]
    fn a_line_is_described_by_its_options() {
        let mut line = Line::new("10Gbit".parse().unwrap(), Duration::from_micros(25_250));
        assert_eq!(
            describe(&[line, line]),
            "Each direction: rate 10Gbit delay 25.25ms queue 60.2 MiB"
        );
        let other = line;
        line.change("loss 0.01% jitter 1ms reorder 1%").unwrap();
        let text = describe(&[line, other]);
        let expected = "A to B: rate 10Gbit delay 25.25ms queue 60.2 MiB jitter 1ms loss 0.01% \
                        reorder 1% by 1ms\nB to A: rate 10Gbit";
        assert!(text.starts_with(expected), "{text}");
    }
}
