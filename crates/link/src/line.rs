//! What one direction of a link is like.

use std::time::Duration;

use serde::Serialize;

use crate::units::{Rate, Share, Size, UnitError, as_ms, words_of_time};

/// One direction of a link: what enters it waits for its turn in a queue, is sent at a rate, and
/// arrives a delay later.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What the line carries at most, framing of Ethernet included.
    pub rate: Rate,
    /// How long anything is under way after it was sent.
    #[serde(rename = "delay_ms", serialize_with = "as_ms")]
    pub delay: Duration,
    /// By how much that varies, to either side.
    #[serde(rename = "jitter_ms", serialize_with = "as_ms")]
    pub jitter: Duration,
    /// How many of the segments are lost.
    pub loss: Share,
    /// How many of the segments arrive late, so that those behind them overtake.
    pub reorder: Share,
    /// By how much these are late.
    #[serde(rename = "reorder_by_ms", serialize_with = "as_ms")]
    pub reorder_by: Duration,
    /// What may wait for the line at most.
    #[serde(skip)]
    pub queue: Queue,
}

/// The length of the queue before a line. What finds no place is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// What is under way in twice the delay, a round trip if the other direction is alike; at least
    /// 1 MiB.
    RoundTrip,
    /// So many bytes, framing included.
    Bytes(Size),
    /// What the line sends in so long.
    Time(Duration),
}

/// What a line may hold, in the queue and under way together.
pub const MEMORY_MAX: u64 = 8 << 30;
/// Longer than any way on earth, or to the moon and back.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// A queue that holds no full packet would let nothing pass behind another.
const QUEUE_MIN: Size = Size(64 << 10);

impl Line {
    /// Returns a line without jitter, loss or reordering.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            jitter: Duration::ZERO,
            loss: Share::NONE,
            reorder: Share::NONE,
            reorder_by: Duration::from_millis(1),
            queue: Queue::RoundTrip,
        }
    }

    /// Changes what `words` name, as tc(8) does for netem: `delay 10ms loss 0.1% queue 64MB`.
    ///
    /// # Errors
    /// Which word is not understood, and what is.
    pub fn change(&mut self, words: &str) -> Result<(), UnitError> {
        let mut words = words.split([' ', '=', ',']).filter(|word| !word.is_empty());
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| {
                UnitError(format!("{name:?} wants a value, as in 'rate 1Gbit loss 0.1%'"))
            })?;
            match name {
                "rate" => self.rate = value.parse()?,
                "delay" | "latency" => self.delay = words_of_time(value)?,
                "jitter" => self.jitter = words_of_time(value)?,
                "loss" => self.loss = value.parse()?,
                "reorder" => self.reorder = value.parse()?,
                "reorder-by" => self.reorder_by = words_of_time(value)?,
                "queue" => self.queue = value.parse()?,
                _ => {
                    return Err(UnitError(format!(
                        "{name:?} is no property of a line: there are rate, delay, jitter, loss, \
                         reorder, reorder-by and queue"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns how many bytes may wait.
    pub fn queue_bytes(&self) -> u64 {
        match self.queue {
            Queue::RoundTrip => self.rate.bytes_in(self.delay.saturating_mul(2)).max(1 << 20),
            Queue::Bytes(Size(bytes)) => bytes,
            Queue::Time(time) => self.rate.bytes_in(time),
        }
    }

    /// Returns how many bytes may be in the queue and under way, which the pump keeps in memory.
    pub fn memory(&self) -> u64 {
        let way = self.delay.saturating_add(self.jitter).saturating_add(self.reorder_by);
        self.queue_bytes().saturating_add(self.rate.bytes_in(way))
    }

    /// Says what is wrong with it, if anything.
    ///
    /// # Errors
    /// For people: what is out of bounds, and what to do.
    pub fn check(&self) -> Result<(), UnitError> {
        let refuse = |text: String| Err(UnitError(text));
        if self.delay > DELAY_MAX || self.reorder_by > DELAY_MAX {
            return refuse("a delay is 10s at most".into());
        }
        if self.jitter > self.delay {
            let (jitter, delay) = (self.jitter, self.delay);
            return refuse(format!(
                "jitter {jitter:?} is more than the delay {delay:?}: nothing arrives before it \
                 is sent"
            ));
        }
        let queue = Size(self.queue_bytes());
        if queue < QUEUE_MIN {
            let rate = self.rate;
            return refuse(format!(
                "a queue of {queue} at {rate} may hold no full packet: {QUEUE_MIN} are the least"
            ));
        }
        if self.memory() > MEMORY_MAX {
            let gib = self.memory() as f64 / f64::from(1 << 30);
            return refuse(format!(
                "queue and delay at this rate hold {gib:.1} GiB in memory, and 8 GiB are the \
                 most: choose a shorter queue, delay or a lower rate"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line::new("10Gbit".parse().unwrap(), Duration::from_micros(25_250))
    }

    #[test]
    fn a_queue_holds_a_round_trip_unless_it_is_said() {
        assert_eq!(line().queue_bytes(), 63_125_000);
        let mut line = line();
        line.change("queue 100ms").unwrap();
        assert_eq!(line.queue_bytes(), 125_000_000);
        line.change("queue 64MB").unwrap();
        assert_eq!(line.queue_bytes(), 64 << 20);
    }

    #[test]
    fn a_queue_is_what_was_asked_for_or_is_refused() {
        let queue = |words: &str| {
            let mut line = line();
            line.change(words).unwrap();
            (line.queue_bytes(), line.check().is_ok())
        };
        assert_eq!(queue("queue 64K"), (64 << 10, true));
        assert_eq!(queue("queue 60000B"), (60_000, false));
        assert_eq!(queue("queue 0ms"), (0, false));
        assert_eq!(queue("rate 1kbit delay 0"), (1 << 20, true));
    }

    #[test]
    fn words_of_netem_change_a_line() {
        let mut line = line();
        line.change("rate 1Gbit delay 10ms, jitter=2ms loss 0.1% reorder 1% reorder-by 3ms")
            .unwrap();
        assert_eq!(line.rate.bits(), 1_000_000_000);
        assert_eq!(line.delay, Duration::from_millis(10));
        assert_eq!(line.jitter, Duration::from_millis(2));
        assert_eq!((line.loss.0, line.reorder.0), (0.001, 0.01));
        assert_eq!(line.reorder_by, Duration::from_millis(3));
        let told = |line: &mut Line, words| line.change(words).unwrap_err().to_string();
        assert!(told(&mut line, "speed 3").contains("there are rate, delay"));
        assert!(told(&mut line, "rate").contains("wants a value"));
        // To netem it is a number of packets.
        assert!(told(&mut line, "limit 1000").contains("no property of a line"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        assert!(line().check().is_ok());
        let told = |change: &str| {
            let mut line = line();
            line.change(change).unwrap();
            line.check().unwrap_err().to_string()
        };
        assert!(told("jitter 1s").contains("before it is sent"));
        assert!(told("delay 11s").contains("10s at most"));
        assert!(told("rate 1Tbit delay 1s").contains("GiB in memory"));
        assert!(told("queue 65535B").contains("64 KiB are the least"));
        let text = told("rate 1Mbit queue 100ms");
        assert!(text.starts_with("a queue of 12.2 KiB at 1Mbit may hold"), "{text}");
    }
}
