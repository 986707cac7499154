//! The terminal: keys go in, pictures come out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fulmar_top::{Model, View};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};

use super::play::Playback;
use super::{Feed, draw, take};

/// How often keys and answers are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How many columns a key scrolls.
const COLUMNS: u16 = 8;

/// What of a view is shown, and how.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// 0 for the table of the nodes if there are several, then each node.
    pub(super) page: usize,
    pub(super) down: u16,
    pub(super) right: u16,
    /// How many lines a page has, as it was drawn last; and the most that can be scrolled.
    pub(super) lines: u16,
    pub(super) down_max: u16,
    pub(super) is_paused: bool,
    /// Whether a paused recording goes on by a round.
    pub(super) is_step: bool,
    /// What is said in the first line.
    pub(super) note: String,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    Quit,
    Handled,
}

impl Screen {
    /// Handles a key. `pages`: how many there are.
    pub(super) fn handle_key(&mut self, key: KeyEvent, pages: usize) -> KeyResult {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return KeyResult::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return KeyResult::Quit,
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('.') => self.is_step = self.is_paused,
            KeyCode::Tab => self.turn(1, pages),
            KeyCode::BackTab => self.turn(pages.saturating_sub(1), pages),
            KeyCode::Char(digit @ '0'..='9') => {
                let page = digit as usize - '0' as usize;
                if page < pages {
                    self.turn(pages + page - self.page, pages);
                }
            }
            KeyCode::Down | KeyCode::Char('j') => self.down = self.down.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.down = self.down.saturating_sub(1),
            KeyCode::PageDown => self.down = self.down.saturating_add(self.lines),
            KeyCode::PageUp => self.down = self.down.saturating_sub(self.lines),
            KeyCode::Home => (self.down, self.right) = (0, 0),
            KeyCode::End => self.down = u16::MAX,
            KeyCode::Right => self.right = self.right.saturating_add(COLUMNS).min(400),
            KeyCode::Left => self.right = self.right.saturating_sub(COLUMNS),
            _ => {}
        }
        self.down = self.down.min(self.down_max);
        KeyResult::Handled
    }

    fn turn(&mut self, by: usize, pages: usize) {
        if pages > 0 {
            self.page = (self.page + by) % pages;
            (self.down, self.right) = (0, 0);
        }
    }
}

/// Returns how many pages a view has: a table of the nodes if there are several, and each node.
pub(super) fn pages(view: &View) -> usize {
    match view.nodes.len() {
        0 | 1 => 1,
        nodes => nodes + 1,
    }
}

/// Shows what comes from a feed until the user ends it.
pub(super) fn run(feed: Feed, speed: f64) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot use the terminal: {error}");
    // Before the terminal is changed: a signal would leave it so.
    let ended = ended().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = show(&mut terminal, feed, speed, &ended);
    let restored = ratatui::try_restore().map_err(failed);
    if ended.load(Relaxed) {
        // After SIGHUP there may be no terminal any more.
        Ok(())
    } else {
        shown.and(restored)
    }
}

/// Returns what is set when SIGTERM, SIGINT or SIGHUP comes.
fn ended() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    drop(entered);
    let ended = Arc::<AtomicBool>::default();
    let set = ended.clone();
    let wait = move || {
        runtime.block_on(async {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {}, _ = hup.recv() => {} }
        });
        set.store(true, Relaxed);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(ended)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut feed: Feed,
    speed: f64,
    ended: &AtomicBool,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot use the terminal: {error}");
    let mut model = feed.model();
    let mut screen = Screen { note: note(&feed, speed, false), ..Screen::default() };
    let mut view = model.view();
    let mut is_new = true;
    while !ended.load(Relaxed) {
        if is_new {
            terminal.draw(|frame| draw::all(frame, &view, &mut screen)).map_err(failed)?;
        }
        is_new = false;
        if event::poll(TICK).map_err(failed)? {
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if screen.handle_key(key, pages(&view)) == KeyResult::Quit {
                        return Ok(());
                    }
                    is_new = true;
                }
                Event::Resize(..) => is_new = true,
                _ => {}
            }
        }
        if go_on(&mut feed, &mut model, &mut screen, speed)? {
            view = model.view();
            is_new = true;
        }
    }
    Ok(())
}

/// Handles what there is from the feed. Returns whether what is shown changes.
fn go_on(
    feed: &mut Feed,
    model: &mut Model,
    screen: &mut Screen,
    speed: f64,
) -> Result<bool, String> {
    let played = match feed {
        // A pause stops only the picture: the nodes are asked on, and recorded.
        Feed::Asked(asked) => {
            let Some(round) = asked.poll()? else { return Ok(false) };
            take(model, round);
            return Ok(!screen.is_paused);
        }
        Feed::Played(recording) if std::mem::take(&mut screen.is_step) => recording.step()?,
        Feed::Played(_) if screen.is_paused => return Ok(false),
        Feed::Played(recording) => recording.poll(speed)?,
    };
    match played {
        Playback::Round(round) => take(model, round),
        Playback::NotYet => return Ok(false),
        Playback::End => {
            let said = note(feed, speed, true);
            let is_new = screen.note != said;
            screen.note = said;
            return Ok(is_new);
        }
    }
    Ok(true)
}

fn note(feed: &Feed, speed: f64, has_ended: bool) -> String {
    match feed {
        Feed::Asked(asked) => {
            let seconds = asked.interval().as_secs_f64();
            let recorded = if asked.is_recorded() { ", recorded" } else { "" };
            format!("every {seconds} s{recorded}")
        }
        Feed::Played(_) if has_ended => "end of the recording".to_owned(),
        Feed::Played(_) if speed == 1.0 => "recording".to_owned(),
        Feed::Played(_) => format!("recording, {speed} times as fast"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, code: KeyCode, pages: usize) -> KeyResult {
        screen.handle_key(KeyEvent::new(code, KeyModifiers::NONE), pages)
    }

    #[test]
    fn keys_turn_pages_and_scroll_within_them() {
        let mut screen = Screen { down_max: 30, lines: 20, ..Screen::default() };
        for (code, page) in [
            (KeyCode::Tab, 1),
            (KeyCode::Tab, 2),
            (KeyCode::Tab, 0),
            (KeyCode::BackTab, 2),
            (KeyCode::Char('1'), 1),
            (KeyCode::Char('9'), 1),
        ] {
            press(&mut screen, code, 3);
            assert_eq!(screen.page, page, "{code:?}");
        }
        for (code, down) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 21),
            (KeyCode::PageDown, 30),
            (KeyCode::PageUp, 10),
            (KeyCode::End, 30),
            (KeyCode::Home, 0),
        ] {
            press(&mut screen, code, 3);
            assert_eq!(screen.down, down, "{code:?}");
        }
        press(&mut screen, KeyCode::Char(' '), 3);
        assert!(screen.is_paused);
        assert_eq!(press(&mut screen, KeyCode::Char('q'), 3), KeyResult::Quit);
    }
}
