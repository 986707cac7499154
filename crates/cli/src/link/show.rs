//! What a link has carried, for people and for programs.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use fulmar_link::{Counters, DIRECTIONS, Line, Size};
use serde_json::{Value, json};

/// Shows a link.
pub(super) struct Show {
    form: Form,
    lines: [Line; 2],
    begun: Instant,
    last: (Duration, [Counters; 2]),
    /// How many lines of a table are on the terminal, which the next one replaces.
    drawn: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A table that is drawn again each second.
    Live,
    /// A table at the end.
    Plain,
    Json,
}

impl Show {
    pub(super) fn new(json: bool, lines: [Line; 2]) -> Self {
        let form = match (json, std::io::stdout().is_terminal()) {
            (true, _) => Form::Json,
            (false, true) => Form::Live,
            (false, false) => Form::Plain,
        };
        let last = (Duration::ZERO, [Counters::default(); 2]);
        Self { form, lines, begun: Instant::now(), last, drawn: 0 }
    }

    /// Says that it works, and what to know.
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
            Form::Live | Form::Plain => {
                print(&format!("{}\n{}\n", told(&self.lines), notes.join("\n")));
            }
        }
    }

    /// Shows how it goes.
    pub(super) fn second(&mut self, counters: [Counters; 2]) {
        let now = self.begun.elapsed();
        let rates = rates(&self.last.1, &counters, now.saturating_sub(self.last.0));
        match self.form {
            Form::Live => {
                let table = table(&counters, rates, "\x1b[K");
                print(&redrawn(self.drawn, &table));
                self.drawn = table.lines().count();
            }
            Form::Json => print(&format!("{}\n", as_json("second", now, &counters, rates))),
            Form::Plain => {}
        }
        self.last = (now, counters);
    }

    /// Says what came of it.
    pub(super) fn ended(&mut self, counters: [Counters; 2]) {
        let now = self.begun.elapsed();
        let rates = rates(&Default::default(), &counters, now);
        match self.form {
            Form::Json => print(&format!("{}\n", as_json("ended", now, &counters, rates))),
            Form::Live | Form::Plain => {
                let seconds = now.as_secs_f64();
                print(&format!("\n{seconds:.1} s in all:\n{}", table(&counters, rates, "")));
            }
        }
    }

    /// Says the same after a command, to whom standard output belongs.
    pub(super) fn command_ended(&mut self, counters: [Counters; 2]) {
        let now = self.begun.elapsed();
        let rates = rates(&Default::default(), &counters, now);
        let text = match self.form {
            Form::Json => format!("{}\n", as_json("ended", now, &counters, rates)),
            Form::Live | Form::Plain => {
                format!("The link, in {:.1} s:\n{}", now.as_secs_f64(), table(&counters, rates, ""))
            }
        };
        crate::context::complain(&text);
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody who reads is no reason to stop carrying.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns what draws a table over one of so many lines, of which each is erased. A terminal that
/// is narrow cuts the lines off: if it wrapped them, there would be more than the cursor goes up.
fn redrawn(lines: usize, table: &str) -> String {
    let back = match lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A"),
    };
    format!("\x1b[?7l{back}{table}\x1b[?7h")
}

/// Returns bits per second that arrived.
fn rates(before: &[Counters; 2], now: &[Counters; 2], time: Duration) -> [f64; 2] {
    let rate = |which: usize| {
        let bytes = now[which].delivered_bytes - before[which].delivered_bytes;
        if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / time.as_secs_f64() }
    };
    [rate(0), rate(1)]
}

/// Says what the lines are like.
fn told(lines: &[Line; 2]) -> String {
    let [there, back] = lines;
    match there == back {
        true => format!("Each way: {}", words(there)),
        false => format!("A to B: {}\nB to A: {}", words(there), words(back)),
    }
}

fn words(line: &Line) -> String {
    let ms = |time: Duration| format!("{}ms", time.as_nanos() as f64 / 1e6);
    let mut text =
        format!("rate {} delay {} queue {}", line.rate, ms(line.delay), Size(line.queue_bytes()));
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

const HEADINGS: [&str; 9] = [
    "direction",
    "Gbit/s",
    "segments",
    "queue",
    "queue max",
    "overflow",
    "lost",
    "reordered",
    "late (worst)",
];
const WIDTHS: [usize; 9] = [9, 7, 11, 8, 9, 8, 8, 9, 14];

/// Returns a heading and a line for each direction; `end` stands at each line's end.
fn table(counters: &[Counters; 2], rates: [f64; 2], end: &str) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    for (which, of) in counters.iter().enumerate() {
        rows.push([
            DIRECTIONS[which].to_owned(),
            format!("{:.3}", rates[which] / 1e9),
            of.delivered.to_string(),
            Size(of.queue_bytes).to_string(),
            Size(of.queue_max_bytes).to_string(),
            of.overflowed.to_string(),
            of.lost.to_string(),
            of.reordered.to_string(),
            format!("{:.0} ({:.0}) µs", of.lateness_mean_us, of.lateness_max_us),
        ]);
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(WIDTHS).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += &format!("{}{end}\n", cells.collect::<Vec<_>>().join("  "));
    }
    text + &warnings(counters, end)
}

/// Says what should not happen.
fn warnings(counters: &[Counters; 2], end: &str) -> String {
    let mut text = String::new();
    for (direction, of) in DIRECTIONS.iter().zip(counters) {
        if of.missed > 0 {
            let missed = of.missed;
            text += &format!(
                "{direction}: {missed} packets dropped: this machine is too busy for the rate{end}\n"
            );
        }
        if of.refused > 0 {
            let refused = of.refused;
            text += &format!("{direction}: {refused} segments came to an end that is down{end}\n");
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
    fn the_table_lines_up_and_says_what_should_not_be() {
        let rates = rates(&Default::default(), &carried(), Duration::from_secs(1));
        let expected = "\
direction   Gbit/s     segments     queue  queue max  overflow      lost  reordered    late (worst)
a to b      10.000          130       0 B   60.2 MiB         1         2          0     4 (1101) µs
b to a       0.000            7       0 B        0 B         0         0          0        0 (0) µs
b to a: 3 packets dropped: this machine is too busy for the rate
";
        assert_eq!(table(&carried(), rates, ""), expected);
    }

    #[test]
    fn a_table_is_drawn_over_the_last_and_wraps_nowhere() {
        assert_eq!(redrawn(0, "a\nb\n"), "\x1b[?7la\nb\n\x1b[?7h");
        assert_eq!(redrawn(3, "a\nb\n"), "\x1b[?7l\x1b[3Aa\nb\n\x1b[?7h");
    }

    #[test]
    fn programs_get_every_counter() {
        let value = as_json("second", Duration::from_millis(1500), &carried(), [8e9, 0.0]);
        let second = &value["second"];
        assert_eq!(second["seconds"], 1.5);
        assert_eq!(second["a_to_b"]["bits_per_second"], 8e9);
        assert_eq!(second["a_to_b"]["queue_max_bytes"], 63_125_000);
        assert_eq!(second["b_to_a"]["missed"], 3);
    }

    #[test]
    fn a_line_is_told_in_the_words_that_make_it() {
        let mut line = Line::new("10Gbit".parse().unwrap(), Duration::from_micros(25_250));
        assert_eq!(told(&[line, line]), "Each way: rate 10Gbit delay 25.25ms queue 60.2 MiB");
        let other = line;
        line.change("loss 0.01% jitter 1ms reorder 1%").unwrap();
        let text = told(&[line, other]);
        let expected = "A to B: rate 10Gbit delay 25.25ms queue 60.2 MiB jitter 1ms loss 0.01% \
                        reorder 1% by 1ms\nB to A: rate 10Gbit";
        assert!(text.starts_with(expected), "{text}");
    }
}
