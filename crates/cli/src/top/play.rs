//! Reading a recording.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_top::record::{Header, LINE_MAX, Round};

/// A recording that is read line by line.
pub(super) struct Recording {
    path: PathBuf,
    file: BufReader<File>,
    header: Header,
    line: u64,
    /// A round that was read, but is not due yet.
    ahead: Option<Round>,
    /// When the last round was shown, and its time in the recording.
    shown: Option<(Instant, u64)>,
}

impl Recording {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file = File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let mut file = BufReader::new(file);
        let first = read_line(&mut file).map_err(|error| format!("{shown}: {error}"))?;
        let header = Header::parse(first.as_deref().unwrap_or_default());
        let header = header.map_err(|error| format!("{shown}: {error}"))?;
        Ok(Self { path: path.to_owned(), file, header, line: 1, ahead: None, shown: None })
    }

    pub(super) fn places(&self) -> &[String] {
        &self.header.nodes
    }

    /// Returns the next round; `None` at the end. A last line without an end is that of a recording that was cut off, and is
    /// left out.
    pub(super) fn next(&mut self) -> Result<Option<Round>, String> {
        if let Some(round) = self.ahead.take() {
            return Ok(Some(round));
        }
        self.line += 1;
        let failed = |what: String| format!("{}, line {}: {what}", self.path.display(), self.line);
        match read_line(&mut self.file).map_err(failed)? {
            None => Ok(None),
            Some(line) => Round::parse(&line).map(Some).map_err(|error| failed(error.to_string())),
        }
    }

    /// Returns the next round if it is due: if as much time has gone by since the last one as in the recording, which is
    /// shown this many times faster.
    pub(super) fn poll(&mut self, speed: f64) -> Result<Playback, String> {
        let Some(round) = self.next()? else { return Ok(Playback::End) };
        let now = Instant::now();
        if let Some((shown, at_ms)) = self.shown {
            let wait = Duration::from_millis(round.at_ms.saturating_sub(at_ms).min(PAUSE_MAX_MS));
            if now.duration_since(shown) < wait.div_f64(speed) {
                self.ahead = Some(round);
                return Ok(Playback::NotYet);
            }
        }
        self.shown = Some((now, round.at_ms));
        Ok(Playback::Round(round))
    }

    /// Returns the next round, whenever it was.
    pub(super) fn step(&mut self) -> Result<Playback, String> {
        self.shown = None;
        self.poll(1.0)
    }
}

/// The longest pause of a recording that is shown as long as it was.
const PAUSE_MAX_MS: u64 = 3_600_000;

/// What comes next of a recording.
pub(super) enum Playback {
    Round(Round),
    NotYet,
    End,
}

/// Reads a line without its end; `None` if there is no whole line left.
fn read_line(file: &mut BufReader<File>) -> Result<Option<String>, String> {
    let mut line = String::new();
    let read = file.by_ref().take(LINE_MAX).read_line(&mut line);
    read.map_err(|error| error.to_string())?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(Some(line.to_owned())),
        None if line.len() as u64 == LINE_MAX => Err("the line is too long".to_owned()),
        None => Ok(None),
    }
}
