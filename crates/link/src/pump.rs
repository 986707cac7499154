//! What moves packets in one direction: a thread that reads from one device, waits, and writes to
//! the other.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fulmar_base::Time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tun_rs::SyncDevice;

use crate::counters::{Tally, add, raise};
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

/// Tells both directions to stop.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    /// Readable once it has rung, for who waits.
    event: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { rung: AtomicBool::new(false), event })
    }

    pub(crate) fn ring(&self) {
        self.rung.store(true, Relaxed);
        // It fails only when it has been rung more often than there are numbers.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn has_rung(&self) -> bool {
        self.rung.load(Relaxed)
    }
}

/// One direction at work.
pub(crate) struct Pump {
    pub(crate) from: Arc<SyncDevice>,
    pub(crate) to: Arc<SyncDevice>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) clock: Clock,
    pub(crate) shaper: Shaper,
    pub(crate) store: Store,
    pub(crate) tally: Arc<Tally>,
}

/// What has ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Readable,
    Otherwise,
}

/// How long this thread takes to wake up, learnt from how late its timers are.
///
/// It gets up earlier by twice that and watches the clock until the time has come. And a packet
/// that has woken it has waited so long already when it is read.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    latency: Duration,
    watched: Time,
}

/// It is some tens of microseconds; more is another program's doing and says nothing of the next
/// time.
const LATENCY_MAX: Duration = Duration::from_micros(100);
/// The clock is watched no more often than this: where many packets follow each other, the
/// processor has better things to do.
const WATCH_APART: Duration = Duration::from_millis(2);

impl Sleep {
    fn new() -> Self {
        Self { latency: Duration::ZERO, watched: Time::ZERO }
    }

    /// Learns from a timer that was so late.
    fn was_late(&mut self, late: Duration) {
        self.latency = (self.latency * 7 + late.min(LATENCY_MAX)) / 8;
    }

    /// Returns how much too early to get up in order to watch the clock, if that is due.
    fn early(&self, now: Time) -> Option<Duration> {
        let due = now.since(self.watched) >= WATCH_APART;
        due.then(|| (self.latency * 2).max(LATENCY_MAX / 4))
    }
}

/// How many packets are delivered before a look at what has entered meanwhile.
const DELIVERIES: u32 = 8;

impl Pump {
    /// Works until it is told to stop.
    ///
    /// # Errors
    /// When a device is gone.
    pub(crate) fn run(mut self) -> io::Result<()> {
        be_punctual();
        let mut sleep = Sleep::new();
        let (mut readable, mut deliveries) = (true, 0);
        while !self.bell.has_rung() {
            let now = self.clock.now();
            if self.store.next().is_some_and(|next| next.due <= now) {
                self.deliver(now)?;
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
            if self.wait(now, &mut sleep)? == Woken::Readable {
                let woken = self.clock.now() - sleep.latency;
                readable = self.take(woken.max(now))?;
            }
        }
        Ok(())
    }

    /// Writes the packet whose time has come.
    fn deliver(&mut self, now: Time) -> io::Result<()> {
        let Some(next) = self.store.next() else { return Ok(()) };
        let (segments, line_bytes) = (u64::from(next.segments), next.line_bytes);
        self.tally.handed_over(now.0 - next.due.0);
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
        raise(&self.tally.queue_max, self.shaper.waiting());
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
    fn wait(&self, now: Time, sleep: &mut Sleep) -> io::Result<Woken> {
        let due = self.store.next().map(|next| next.due);
        let early = sleep.early(now);
        let alarm = due.map(|due| due - early.unwrap_or_default());
        let mut fds = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.bell.event.as_fd(), PollFlags::IN),
        ];
        let woken = match poll(&mut fds, alarm.map(|alarm| timespec(alarm.since(now))).as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(Woken::Otherwise),
            Err(error) => return Err(error.into()),
        };
        // A device that is gone is told of by the read.
        if woken > 0 {
            return Ok(Woken::Readable);
        }
        if let (Some(due), Some(alarm), Some(_)) = (due, alarm, early) {
            if alarm > now {
                sleep.was_late(self.clock.now().since(alarm));
            }
            while self.clock.now() < due {
                std::hint::spin_loop();
            }
            sleep.watched = due;
        }
        Ok(Woken::Otherwise)
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Asks the system to run this thread as soon as there is something to do, and to be exact about
/// time. One that refuses gives what it can.
fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // A fair scheduler lets others finish their turns of milliseconds, whatever the priority.
    let id = rustix::thread::gettid().as_raw_pid().to_string();
    let real_time = Command::new("chrt").args(["--fifo", "--pid", "10", &id]).output();
    if !real_time.is_ok_and(|output| output.status.success()) {
        let _ = rustix::process::nice(-20);
    }
}

/// Whether the device does not exist any more; other errors are about one packet.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::BADFD, Errno::BADF, Errno::NODEV];
    error.raw_os_error().is_some_and(|code| gone.iter().any(|errno| errno.raw_os_error() == code))
}
