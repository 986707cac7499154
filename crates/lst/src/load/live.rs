//! Progress of a measurement: a line on the terminal that is updated each second.

use std::time::Duration;

use fulmar_text::grouped;
use indicatif::{ProgressBar, ProgressStyle};

use super::drive::Tick;
use super::report::rate;

/// The display of the progress.
pub(super) struct Live {
    /// A line that is overwritten; hidden where standard error is not a terminal.
    bar: ProgressBar,
    /// Whether to print line after line where there is no terminal.
    lines: bool,
    label: String,
}

impl Live {
    /// Shows progress on standard error, if that is a terminal or if the user requested it.
    pub(super) fn on_stderr(wanted: bool) -> Self {
        Self::on(ProgressBar::no_length(), wanted)
    }

    fn on(bar: ProgressBar, wanted: bool) -> Self {
        let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
        let bar = bar.with_style(style);
        let lines = wanted && bar.is_hidden();
        Self { bar, lines, label: String::new() }
    }

    /// Sets the label of the following lines.
    pub(super) fn label(&mut self, label: String) {
        self.label = format!("{label}: ");
        // There are no results before the first second.
        self.show(format!("{}...", self.label));
    }

    /// Shows the rates of the last second.
    pub(super) fn tick(&mut self, tick: &Tick) {
        self.show(format!("{}{}", self.label, line(tick)));
    }

    /// Prints a line permanently.
    pub(super) fn note(&mut self, text: &str) {
        if self.lines { eprintln!("{text}") } else { self.bar.println(text) }
    }

    /// Removes the progress line before other output.
    pub(super) fn clear(&mut self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, text: String) {
        if self.lines { eprintln!("{text}") } else { self.bar.set_message(text) }
    }
}

fn line(tick: &Tick) -> String {
    let seconds = |time: Duration| time.as_secs_f64().round();
    let mut text = format!("{}/{} s", seconds(tick.elapsed), seconds(tick.time));
    if tick.bytes_per_second > 0.0 {
        text += &format!("  {} MB/s", rate(tick.bytes_per_second / 1e6));
    }
    text += &format!("  {} RPC/s", rate(tick.rpcs_per_second));
    if tick.errors > 0 {
        text += &format!("  {} errors", grouped(tick.errors));
    }
    if tick.failed > 0 {
        text += &format!("  {} of {} nodes failed", tick.failed, tick.nodes);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    fn tick() -> Tick {
        Tick {
            elapsed: Duration::from_millis(2_004),
            time: Duration::from_secs(30),
            bytes_per_second: 1_234.5e6,
            rpcs_per_second: 1177.0,
            errors: 3,
            nodes: 4,
            failed: 1,
        }
    }

    #[test]
    fn a_terminal_shows_notes_above_the_progress_line() {
        let screen = InMemoryTerm::new(10, 100);
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut live = Live::on(ProgressBar::with_draw_target(None, target), false);
        live.label("size 4k".to_owned());
        assert_eq!(screen.contents(), "size 4k: ...");
        live.tick(&tick());
        live.bar.force_draw();
        let line = "size 4k: 2/30 s  1,234 MB/s  1,177 RPC/s  3 errors  1 of 4 nodes failed";
        assert_eq!(screen.contents(), line);
        live.note("done");
        assert_eq!(screen.contents(), format!("done\n{line}"));
        live.clear();
        assert_eq!(screen.contents(), "done");
    }

    #[test]
    fn without_a_terminal_lines_are_printed_only_on_request() {
        let shows_lines = |wanted| Live::on(ProgressBar::hidden(), wanted).lines;
        assert_eq!([false, true].map(shows_lines), [false, true]);
        assert!(line(&tick()).starts_with("2/30 s  1,234 MB/s  1,177 RPC/s"));
    }
}
