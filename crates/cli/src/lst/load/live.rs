//! How it goes, while it goes: a line on the terminal that is written again each second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::drive::Tick;
use super::table::{grouped, rate};

/// Where and how the line is shown.
pub(super) struct Live {
    form: Form,
    out: Box<dyn Write>,
    label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Silent,
    /// One line, over the one before.
    Over,
    /// Line after line.
    Lines,
}

/// Back to the beginning of the line, and erase it.
const ERASE: &str = "\r\x1b[K";

impl Live {
    /// Shows it on standard error, if that is a terminal or if the user wants it anyway.
    pub(super) fn on_stderr(wanted: bool) -> Self {
        let err = std::io::stderr();
        let form = match (err.is_terminal(), wanted) {
            (true, _) => Form::Over,
            (false, true) => Form::Lines,
            (false, false) => Form::Silent,
        };
        Self { form, out: Box::new(err), label: String::new() }
    }

    /// Says what the following lines are about.
    pub(super) fn label(&mut self, label: String) {
        self.label = label;
        // Before the first second there is nothing else to see.
        let text = format!("{}...", prefix(&self.label));
        self.show(&text);
    }

    /// Shows how it goes.
    pub(super) fn tick(&mut self, tick: &Tick) {
        self.show(&format!("{}{}", prefix(&self.label), line(tick)));
    }

    /// Writes a line that stays.
    pub(super) fn note(&mut self, text: &str) {
        match self.form {
            Form::Silent => {}
            Form::Over => self.write(&format!("{ERASE}{text}\n")),
            Form::Lines => self.write(&format!("{text}\n")),
        }
    }

    /// Takes the line away: something else is going to be printed.
    pub(super) fn clear(&mut self) {
        if self.form == Form::Over {
            self.write(ERASE);
        }
    }

    fn show(&mut self, text: &str) {
        match self.form {
            Form::Silent => {}
            Form::Over => self.write(&format!("{ERASE}{text}")),
            Form::Lines => self.write(&format!("{text}\n")),
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn prefix(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}: ") }
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
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(form: Form) -> String {
        let screen = Screen::default();
        let mut live = Live { form, out: Box::new(screen.clone()), label: String::new() };
        live.label("size 4k".to_owned());
        live.tick(&Tick {
            elapsed: Duration::from_millis(2_004),
            time: Duration::from_secs(30),
            bytes_per_second: 1_234.5e6,
            rpcs_per_second: 1177.0,
            errors: 3,
            nodes: 4,
            failed: 1,
        });
        live.note("done");
        live.clear();
        let bytes = screen.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_line_is_written_over_itself_on_a_terminal_only() {
        let line = "size 4k: 2/30 s  1,235 MB/s  1,177 RPC/s  3 errors  1 of 4 nodes failed";
        assert_eq!(shown(Form::Silent), "");
        assert_eq!(shown(Form::Lines), format!("size 4k: ...\n{line}\ndone\n"));
        let over = format!("{ERASE}size 4k: ...{ERASE}{line}{ERASE}done\n{ERASE}");
        assert_eq!(shown(Form::Over), over);
    }
}
