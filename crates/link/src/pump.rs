//! Moves packets in one direction: a thread that reads from one device, waits, and writes to the
//! other.

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

/// Time since the start of the link, the same for both directions.
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

/// The signal for both directions to stop.
#[derive(Debug)]
pub(crate) struct StopSignal {
    is_set: AtomicBool,
    /// Readable after the signal, for waiting threads.
    event: OwnedFd,
}

impl StopSignal {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { is_set: AtomicBool::new(false), event })
    }

    pub(crate) fn set(&self) {
        self.is_set.store(true, Relaxed);
        // It fails only if the counter overflows.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }
}

/// One running direction.
pub(crate) struct Pump {
    pub(crate) from: Arc<SyncDevice>,
    pub(crate) to: Arc<SyncDevice>,
    pub(crate) stop: Arc<StopSignal>,
    pub(crate) clock: Clock,
    pub(crate) shaper: Shaper,
    pub(crate) store: Store,
    pub(crate) tally: Arc<Tally>,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeCause {
    Readable,
    Otherwise,
}

/// The wake-up time of this thread, measured by the lateness of its timers.
///
/// The thread wakes earlier by twice that time and then polls the clock. A packet that wakes the
/// thread has already waited for that time when it is read.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    latency: Duration,
    watched: Time,
}

/// The usual time is some tens of microseconds; more is caused by other programs and does not
/// predict the next time.
const LATENCY_MAX: Duration = Duration::from_micros(100);
/// The minimum interval of polling the clock: with many packets, polling would waste processor
/// time.
const WATCH_APART: Duration = Duration::from_millis(2);

impl Sleep {
    fn new() -> Self {
        Self { latency: Duration::ZERO, watched: Time::ZERO }
    }

    /// Records the lateness of a timer.
    fn was_late(&mut self, late: Duration) {
        self.latency = (self.latency * 7 + late.min(LATENCY_MAX)) / 8;
    }

    /// Returns how much earlier to wake in order to poll the clock, if polling is due.
    fn early(&self, now: Time) -> Option<Duration> {
        let due = now.since(self.watched) >= WATCH_APART;
        due.then(|| (self.latency * 2).max(LATENCY_MAX / 4))
    }
}

/// The number of packets that are delivered before new packets are read.
const DELIVERIES: u32 = 8;

impl Pump {
    /// Runs until the stop signal.
    ///
    /// # Errors
    /// If a device was removed.
    pub(crate) fn run(mut self) -> io::Result<()> {
        be_punctual();
        let mut sleep = Sleep::new();
        let (mut readable, mut deliveries) = (true, 0);
        while !self.stop.is_set() {
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
            if self.wait(now, &mut sleep)? == WakeCause::Readable {
                let woken = self.clock.now() - sleep.latency;
                readable = self.take(woken.max(now))?;
            }
        }
        Ok(())
    }

    /// Writes the packet that is due.
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
            // The device is down or memory is short: the packet is lost.
            Err(_) => add(&self.tally.refused, segments),
        }
        self.store.pop();
        Ok(())
    }

    /// Reads a packet, if there is one, and sends it on the line.
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

    /// Splits the packet that was read into its runs.
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
    fn wait(&self, now: Time, sleep: &mut Sleep) -> io::Result<WakeCause> {
        let due = self.store.next().map(|next| next.due);
        let early = sleep.early(now);
        let alarm = due.map(|due| due - early.unwrap_or_default());
        let mut fds = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.event.as_fd(), PollFlags::IN),
        ];
        let woken = match poll(&mut fds, alarm.map(|alarm| timespec(alarm.since(now))).as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(WakeCause::Otherwise),
            Err(error) => return Err(error.into()),
        };
        // The read reports a removed device.
        if woken > 0 {
            return Ok(WakeCause::Readable);
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
        Ok(WakeCause::Otherwise)
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Requests real-time scheduling and exact timers for this thread. Refusals are ignored.
fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // The default scheduler lets others finish time slices of milliseconds, at any priority.
    let id = rustix::thread::gettid().as_raw_pid().to_string();
    let real_time = Command::new("chrt").args(["--fifo", "--pid", "10", &id]).output();
    if !real_time.is_ok_and(|output| output.status.success()) {
        let _ = rustix::process::nice(-20);
    }
}

/// Returns whether the device was removed; other errors concern one packet.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::BADFD, Errno::BADF, Errno::NODEV];
    error.raw_os_error().is_some_and(|code| gone.iter().any(|errno| errno.raw_os_error() == code))
}
