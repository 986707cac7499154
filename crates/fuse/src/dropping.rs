//! Has the kernel drop the pages of files.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::notices::Notices;
use crate::pages::{FillState, Wave};

/// How long a message may take before it is looked at what it waits for; then twice as long each time.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);
/// How long dirty pages are waited for.
const DIRTY_MAX: Duration = Duration::from_secs(10);

impl Notices {
    /// Returns when the kernel has none of the pages of a file that it had before. [`crate::pages::Pages::lose`] has
    /// begun that.
    ///
    /// A message that waits for a request which has come after it is left behind, and another one sent that leaves
    /// the range of the request out too. Each page was dropped then by one of them, or was not there, or is
    /// that of a request that waits.
    pub(crate) fn drop_pages(&self, file: u64) {
        let (sender, sent) = channel();
        let (begun, mut pause) = (Instant::now(), PAUSE);
        'waves: loop {
            let wave = self.nodes(|nodes| nodes.pages.wave(file));
            let is_sent = self.send_wave(file, &wave, sender.clone());
            loop {
                if sent.recv_timeout(pause).is_ok() {
                    break 'waves;
                }
                pause = (pause * 2).min(PAUSE_MAX);
                let (has_newer, may_be_dirty) = self.nodes(|nodes| {
                    (nodes.pages.has_newer(file, &wave), nodes.pages.may_be_dirty(file))
                });
                if has_newer || !is_sent {
                    continue 'waves;
                }
                // The kernel may hold the writes of dirty pages back until an operation has ended that waits for this.
                if may_be_dirty && begun.elapsed() > DIRTY_MAX {
                    break 'waves;
                }
            }
        }
        self.nodes(|nodes| nodes.pages.lost(file));
    }

    /// Sends a wave on a thread of its own, which may have to wait for long.
    fn send_wave(&self, file: u64, wave: &Wave, sender: Sender<()>) -> bool {
        let send = self.drop_ranges(file, wave.ranges.clone());
        begin_apart(move || {
            send();
            let _ = sender.send(());
        })
    }

    /// This mount has changed the data of a file: who is reading them for the kernel reads them again. What the
    /// kernel has of them it drops itself, after the reply to the change.
    pub(crate) fn changed(&self, file: u64) {
        self.nodes(|nodes| nodes.pages.changed(file));
    }

    /// Begins a request that fills pages of a file, or writes them.
    pub(crate) fn begin_fill(self: &Arc<Self>, file: u64, (offset, len): (u64, u64)) -> FillGuard {
        let number =
            self.nodes(|nodes| nodes.pages.begin(file, offset..offset.saturating_add(len)));
        FillGuard { fill: Fill { notices: self.clone(), file, number } }
    }
}

/// Does something on a thread of its own. Returns whether there is one.
pub(crate) fn begin_apart(what: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name("fulmar-pages".to_owned()).spawn(what).is_ok()
}

/// A request that fills pages.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    notices: Arc<Notices>,
    file: u64,
    number: u64,
}

/// The same until its reply is written.
#[derive(Debug)]
pub(crate) struct FillGuard {
    pub(crate) fill: Fill,
}

impl Fill {
    /// Returns what is to be told when its data are found, with whether they are protected.
    pub(crate) fn attempt(&self) -> impl FnMut(bool) + Clone + Send + 'static {
        let (notices, file, number) = (self.notices.clone(), self.file, self.number);
        notices.nodes(|nodes| nodes.pages.attempt(file, number));
        move |is_protected| notices.nodes(|nodes| nodes.pages.found(file, number, is_protected))
    }

    /// Returns whether the reply may be written.
    pub(crate) fn is_found(&self) -> bool {
        self.state() != FillState::Nothing
    }

    /// Its pages stay, whatever was found.
    pub(crate) fn stays(&self) {
        self.notices.nodes(|nodes| nodes.pages.stays(self.file, self.number));
    }

    fn state(&self) -> FillState {
        self.notices.nodes(|nodes| nodes.pages.state(self.file, self.number))
    }
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        let Fill { notices, file, number } = self.fill.clone();
        let state = self.fill.state();
        let has_lost = notices.nodes(|nodes| {
            nodes.pages.end(file, number);
            state == FillState::Unprotected && nodes.pages.lose(file)
        });
        if has_lost {
            let this = notices.clone();
            if !begin_apart(move || this.drop_pages(file)) {
                notices.drop_pages(file);
            }
        }
    }
}

/// A file that is open such that its pages may be made dirty.
#[derive(Debug)]
pub(crate) struct Writer {
    notices: Arc<Notices>,
    file: u64,
}

impl Writer {
    pub(crate) fn new(notices: &Arc<Notices>, file: u64) -> Self {
        notices.nodes(|nodes| nodes.pages.add_writer(file, true));
        Self { notices: notices.clone(), file }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.notices.nodes(|nodes| nodes.pages.add_writer(self.file, false));
    }
}
