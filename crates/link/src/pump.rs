//! What moves packets in one direction: a thread that reads from one device, waits, and writes to
//! the other.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fulmar_base::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tun_rs::SyncDevice;

use crate::counters::{Tally, add};
use crate::packet::{LONGEST, Layout, VNET};
use crate::shaper::{Fate, Run, Shaper};
use crate::store::Store;

/// Time since the link was started, the same for both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}

/// One direction at work.
pub(crate) struct Pump {
    pub(crate) from: Arc<SyncDevice>,
    pub(crate) to: Arc<SyncDevice>,
    /// Readable when it is time to stop.
    pub(crate) bell: Arc<OwnedFd>,
    pub(crate) clock: Clock,
    pub(crate) shaper: Shaper,
    pub(crate) store: Store,
    pub(crate) tally: Arc<Tally>,
}

/// What a wait has shown.
enum Woken {
    Stop,
    /// Whether there is something to read.
    Readable(bool),
}

/// A sleeper wakes some tens of microseconds late. It gets up earlier and watches the clock, ...
const EARLY: Duration = Duration::from_micros(60);
/// ... but no more often than this: where many packets follow each other, the processor has better
/// things to do, and packets that are due close to each other make each other late anyway.
const WATCH_APART: Duration = Duration::from_millis(1);
/// How many packets are delivered before a look at what has entered meanwhile.
const DELIVERIES: u32 = 8;

impl Pump {
    /// Works until it is told to stop.
    ///
    /// # Errors
    /// When a device is gone.
    pub(crate) fn run(mut self) -> io::Result<()> {
        // Both are for exactness. A system that refuses gives what it can.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = rustix::process::nice(-20);
        let (mut readable, mut deliveries) = (true, 0);
        let mut watched = Time::ZERO;
        loop {
            let now = self.clock.now();
            if self.store.next().is_some_and(|next| next.due <= now) {
                self.deliver()?;
                deliveries += 1;
                if deliveries % DELIVERIES != 0 {
                    continue;
                }
                readable = true;
            }
            if readable {
                readable = self.take(now)?;
                continue;
            }
            match self.wait(now, &mut watched)? {
                Woken::Stop => return Ok(()),
                Woken::Readable(there) => readable = there,
            }
        }
    }

    /// Writes the packet whose time has come.
    fn deliver(&mut self) -> io::Result<()> {
        let Some(next) = self.store.next() else { return Ok(()) };
        let (segments, line_bytes) = (u64::from(next.segments), next.line_bytes);
        match self.to.send(next.bytes) {
            Ok(_) => {
                add(&self.tally.delivered_bytes, line_bytes);
                add(&self.tally.delivered, segments);
            }
            Err(error) if is_gone(&error) => return Err(error),
            // The device is down or memory is short: as with any wire, that is a loss.
            Err(_) => add(&self.tally.refused, segments),
        }
        self.store.pop();
        Ok(())
    }

    /// Reads a packet, if there is one, and puts it on the line.
    fn take(&mut self, now: Time) -> io::Result<bool> {
        let len = match self.from.recv(self.store.space()) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        if len <= VNET {
            return Ok(true);
        }
        let layout = Layout::of(&self.store.space()[..len]);
        let train = layout.train();
        add(&self.tally.packets, 1);
        add(&self.tally.entered, u64::from(train.count));
        self.shaper.handle_packet(now, train);
        let first = self.shaper.poll_output();
        match first {
            Some(Run { segments, fate: Fate::Arrives(due), bytes })
                if segments.len() == train.count as usize =>
            {
                self.store.push(due, len, train.count, bytes);
            }
            first => self.split(len, &layout, first),
        }
        self.tally.busy_until.store(self.shaper.busy_until().0, Relaxed);
        let queued = self.shaper.queued(now);
        if queued > self.tally.queue_max.load(Relaxed) {
            self.tally.queue_max.store(queued, Relaxed);
        }
        Ok(true)
    }

    /// Cuts the packet that was read into its runs.
    fn split(&mut self, len: usize, layout: &Layout, first: Option<Run>) {
        let packet = self.store.space()[..len].to_vec();
        let mut next = first;
        while let Some(Run { segments, fate, bytes }) = next {
            let count = segments.end - segments.start;
            match fate {
                Fate::Arrives(due) => {
                    let len = layout.cut(&packet, segments, self.store.space());
                    self.store.push(due, len, count, bytes);
                }
                Fate::Late(due) => {
                    let mut late = vec![0; LONGEST];
                    let len = layout.cut(&packet, segments, &mut late);
                    late.truncate(len);
                    late.shrink_to_fit();
                    self.store.push_late(due, late, count, bytes);
                    add(&self.tally.reordered, u64::from(count));
                }
                Fate::Lost => add(&self.tally.lost, u64::from(count)),
                Fate::Overflowed => add(&self.tally.overflowed, u64::from(count)),
            }
            next = self.shaper.poll_output();
        }
    }

    /// Waits for a packet, for the time of one, or for the end.
    fn wait(&self, now: Time, watched: &mut Time) -> io::Result<Woken> {
        let due = self.store.next().map(|next| next.due);
        let watch = now.since(*watched) >= WATCH_APART;
        let early = if watch { EARLY } else { Duration::ZERO };
        let rest = due.map(|due| due.since(now).saturating_sub(early));
        let mut fds = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN),
        ];
        let timeout = rest.map(|rest| Timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        });
        let woken = match poll(&mut fds, timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        if !fds[1].revents().is_empty() {
            return Ok(Woken::Stop);
        }
        // A device that is gone is told of by the read.
        if woken > 0 {
            return Ok(Woken::Readable(true));
        }
        if let Some(due) = due.filter(|_| watch) {
            while self.clock.now() < due {
                std::hint::spin_loop();
            }
            *watched = due;
        }
        Ok(Woken::Readable(false))
    }
}

/// Whether the device does not exist any more; other errors are about one packet.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::BADFD, Errno::BADF, Errno::NODEV];
    error.raw_os_error().is_some_and(|code| gone.iter().any(|errno| errno.raw_os_error() == code))
}
