//! The link: two devices, and a thread for each direction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::counters::{Counters, Tally};
use crate::device::Device;
use crate::error::LinkError;
use crate::line::Line;
use crate::pump::{Clock, Pump, StopSignal};
use crate::shaper::Shaper;
use crate::store::Store;
use crate::units::UnitError;

/// One side of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// A network namespace: a name that `ip netns` knows, or a path such as `/proc/1234/ns/net`.
    pub namespace: String,
    /// The name of the device that the link creates there.
    pub device: String,
    /// Addresses of the device, such as `10.99.0.1/24`.
    pub addresses: Vec<String>,
}

/// The options of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The two sides, A and B.
    pub ends: [End; 2],
    /// The direction from A to B, and that from B to A.
    pub lines: [Line; 2],
    /// The longest IP packet.
    pub mtu: u16,
    /// The seed of random events: the same seed and the same traffic have the same result.
    pub seed: u64,
}

/// The names of the directions.
pub const DIRECTIONS: [&str; 2] = ["a to b", "b to a"];
/// The usual MTU of storage networks.
pub const DEFAULT_MTU: u16 = 9000;
/// The default name of a device.
pub const DEFAULT_DEVICE: &str = "wan0";
/// The minimum MTU of IPv4.
const MTU_MIN: u16 = 576;

/// A running link. Its devices are removed when it is dropped.
pub struct Link {
    clock: Clock,
    directions: [Direction; 2],
    stop: Arc<StopSignal>,
    failure: Arc<Mutex<Option<String>>>,
    threads: Vec<JoinHandle<()>>,
}

struct Direction {
    line: Line,
    from: Device,
    tally: Arc<Tally>,
}

impl Link {
    /// Creates the devices and starts to carry packets.
    ///
    /// # Errors
    /// If the options are not valid, or the system refuses an operation.
    pub fn start(options: &Options) -> Result<Self, LinkError> {
        for (line, direction) in options.lines.iter().zip(DIRECTIONS) {
            line.check().map_err(|error| LinkError::Line { direction, error })?;
        }
        if options.mtu < MTU_MIN {
            let mtu = options.mtu;
            return Err(UnitError(format!("an MTU is {MTU_MIN} to 65535, not {mtu}")).into());
        }
        let [a, b] = &options.ends;
        let (a, b) = (Device::new(a, options.mtu)?, Device::new(b, options.mtu)?);
        let stop = StopSignal::new()
            .map_err(|error| LinkError::System { what: "cannot make an eventfd", error })?;
        let clock = Clock::start();
        let [ab, ba] = options.lines;
        let direction =
            |line, from: &Device| Direction { line, from: from.clone(), tally: Arc::default() };
        let mut this = Self {
            clock,
            directions: [direction(ab, &a), direction(ba, &b)],
            stop: Arc::new(stop),
            failure: Arc::default(),
            threads: Vec::new(),
        };
        this.pump(0, &b, options.seed)?;
        this.pump(1, &a, options.seed.wrapping_add(1))?;
        Ok(this)
    }

    fn pump(&mut self, which: usize, to: &Device, seed: u64) -> Result<(), LinkError> {
        let Direction { line, from, tally } = &self.directions[which];
        let pump = Pump {
            from: from.tun.clone(),
            to: to.tun.clone(),
            stop: self.stop.clone(),
            clock: self.clock,
            shaper: Shaper::new(*line, seed),
            store: Store::new(),
            tally: tally.clone(),
        };
        let failure = self.failure.clone();
        let work = move || {
            let why = match catch_unwind(AssertUnwindSafe(|| pump.run())) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("a device was removed: {error}"),
                Err(_) => "a defect of this program, reported above".to_owned(),
            };
            let text = format!("{}: {why}", DIRECTIONS[which]);
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
        };
        let thread = thread::Builder::new().name(format!("link {}", DIRECTIONS[which]));
        let thread = thread.spawn(work);
        let failed = |error| LinkError::System { what: "cannot start a thread", error };
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }

    /// Returns the counters of each direction.
    pub fn counters(&self) -> [Counters; 2] {
        let now = self.clock.now();
        self.directions
            .each_ref()
            .map(|direction| direction.tally.at(now, &direction.line, direction.from.missed()))
    }

    /// Returns the lines as they were requested.
    pub fn lines(&self) -> [Line; 2] {
        self.directions.each_ref().map(|direction| direction.line)
    }

    /// Returns why the link has stopped: a device or its namespace was removed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
