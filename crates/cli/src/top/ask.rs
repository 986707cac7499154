//! Asking nodes at intervals: a thread for each, so that one that does not answer keeps no other waiting.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulmar_control::api::Place;
use fulmar_top::Answer;
use fulmar_top::record::Round;

use super::Recorder;
use super::here::Here;

/// How long a node may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// What is asked.
pub(super) enum Source {
    Node(Place),
    Here(Here),
}

impl Source {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Node(place) => place.to_string(),
            Self::Here(here) => here.name(),
        }
    }

    fn answer(&mut self) -> Answer {
        let sample = match self {
            Self::Node(place) => place.sample(TIMEOUT).map_err(|error| error.to_string()),
            Self::Here(here) => here.sample(),
        };
        match sample {
            Ok(sample) => Answer::Sample(Box::new(sample.bound())),
            Err(error) => Answer::Error(error),
        }
    }
}

/// Nodes that are asked at intervals.
pub(super) struct Poller {
    places: Vec<String>,
    askers: Vec<Asker>,
    answers: Receiver<(usize, Answer)>,
    interval: Duration,
    /// When they are asked next.
    due: Instant,
    recorder: Option<Recorder>,
}

struct Asker {
    question: SyncSender<()>,
    is_asked: bool,
}

impl Poller {
    pub(super) fn start(
        sources: Vec<Source>,
        interval: Duration,
        recorder: Option<Recorder>,
    ) -> io::Result<Self> {
        let places = sources.iter().map(Source::name).collect();
        let (sender, answers) = channel();
        let asker = |(number, mut source): (usize, Source)| {
            let sender = sender.clone();
            let (question, questions) = sync_channel::<()>(1);
            thread::Builder::new().name("top".into()).spawn(move || {
                while questions.recv().is_ok() && sender.send((number, source.answer())).is_ok() {}
            })?;
            Ok(Asker { question, is_asked: false })
        };
        let askers = sources.into_iter().enumerate().map(asker).collect::<io::Result<_>>()?;
        Ok(Self { places, askers, answers, interval, due: Instant::now(), recorder })
    }

    pub(super) fn places(&self) -> &[String] {
        &self.places
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// Waits for the interval, asks all nodes, and returns their answers.
    pub(super) fn next(&mut self) -> Result<Round, String> {
        thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.ask();
        let mut round = self.round();
        let end = Instant::now() + 2 * TIMEOUT;
        while self.askers.iter().any(|asker| asker.is_asked) {
            match self.answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(answer) => self.add(&mut round, answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.note_silence(&mut round);
        self.record(&round)?;
        Ok(round)
    }

    /// Asks those that are to be asked now. Returns what has been answered meanwhile, if something has.
    pub(super) fn poll(&mut self) -> Result<Option<Round>, String> {
        let mut round = self.round();
        if self.due <= Instant::now() {
            self.note_silence(&mut round);
            self.ask();
        }
        while let Ok(answer) = self.answers.try_recv() {
            self.add(&mut round, answer);
        }
        if round.answers.iter().all(Option::is_none) {
            return Ok(None);
        }
        self.record(&round)?;
        Ok(Some(round))
    }

    fn ask(&mut self) {
        self.due = (self.due + self.interval).max(Instant::now());
        for asker in self.askers.iter_mut().filter(|asker| !asker.is_asked) {
            asker.is_asked = asker.question.try_send(()).is_ok();
        }
    }

    fn round(&self) -> Round {
        Round { at_ms: now_ms(), answers: vec![None; self.askers.len()] }
    }

    fn add(&mut self, round: &mut Round, (number, answer): (usize, Answer)) {
        self.askers[number].is_asked = false;
        round.answers[number] = Some(answer);
    }

    /// Says of those that were asked and have not answered that they have not.
    fn note_silence(&self, round: &mut Round) {
        let silent = self.askers.iter().zip(&mut round.answers).zip(&self.places);
        for ((_, answer), place) in silent.filter(|((asker, _), _)| asker.is_asked) {
            *answer = Some(Answer::Error(format!("no answer yet from {place}")));
        }
    }

    fn record(&mut self, round: &Round) -> Result<(), String> {
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.write(&round.line()))
    }
}

/// Returns the time since 1970 in milliseconds.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
