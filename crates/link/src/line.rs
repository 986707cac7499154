//! The properties of one direction of a link.

use std::time::Duration;

use serde::Serialize;

use crate::units::{Rate, Share, Size, UnitError, as_ms, words_of_time};

/// One direction of a link: packets wait in a queue, are sent at a rate, and arrive after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The rate of the line, including Ethernet framing.
    pub rate: Rate,
    /// The propagation delay.
    #[serde(rename = "delay_ms", serialize_with = "as_ms")]
    pub delay: Duration,
    /// The variation of the delay, in both directions.
    #[serde(rename = "jitter_ms", serialize_with = "as_ms")]
    pub jitter: Duration,
    /// The share of segments that are lost.
    pub loss: Share,
    /// The share of segments that are delayed, so that later ones overtake them.
    pub reorder: Share,
    /// The additional delay of these.
    #[serde(rename = "reorder_by_ms", serialize_with = "as_ms")]
    pub reorder_by: Duration,
    /// The length of the queue.
    #[serde(skip)]
    pub queue: Queue,
}

/// The length of the queue before a line. Segments that do not fit are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// The data of twice the delay, a round trip if both directions are equal; at least 1 MiB.
    RoundTrip,
    /// A number of bytes, including framing.
    Bytes(Size),
    /// The data that the line sends in this time.
    Time(Duration),
}

/// The limit of data in the queue and in flight together.
pub const MEMORY_MAX: u64 = 8 << 30;
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// The shortest queue: it must hold a full packet.
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

    /// Changes the properties in `words`, as tc(8) does for netem: `delay 10ms loss 0.1% queue
    /// 64MB`.
    ///
    /// # Errors
    /// If a word is not valid; the error lists the properties.
    pub fn change(&mut self, words: &str) -> Result<(), UnitError> {
        let mut words = words.split([' ', '=', ',']).filter(|word| !word.is_empty());
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| {
                UnitError(format!("{name:?} needs a value, as in 'rate 1Gbit loss 0.1%'"))
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
                        "{name:?} is not a property of a line: use rate, delay, jitter, loss, \
                         reorder, reorder-by or queue"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the length of the queue in bytes.
    pub fn queue_bytes(&self) -> u64 {
        match self.queue {
            Queue::RoundTrip => self.rate.bytes_in(self.delay.saturating_mul(2)).max(1 << 20),
            Queue::Bytes(Size(bytes)) => bytes,
            Queue::Time(time) => self.rate.bytes_in(time),
        }
    }

    /// Returns the maximum of bytes in the queue and in flight, which the pump keeps in memory.
    pub fn memory(&self) -> u64 {
        let way = self.delay.saturating_add(self.jitter).saturating_add(self.reorder_by);
        self.queue_bytes().saturating_add(self.rate.bytes_in(way))
    }

    /// Checks the properties.
    ///
    /// # Errors
    /// If a property is out of range; the error says what to do.
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
                "a queue of {queue} at {rate} may not hold a packet: {QUEUE_MIN} is the minimum"
            ));
        }
        if self.memory() > MEMORY_MAX {
            let gib = self.memory() as f64 / f64::from(1 << 30);
            return refuse(format!(
                "queue and delay at this rate need {gib:.1} GiB of memory, and 8 GiB is the \
                 maximum: choose a shorter queue, delay or a lower rate"
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
    fn a_queue_holds_a_round_trip_by_default() {
        assert_eq!(line().queue_bytes(), 63_125_000);
        let mut line = line();
        line.change("queue 100ms").unwrap();
        assert_eq!(line.queue_bytes(), 125_000_000);
        line.change("queue 64MB").unwrap();
        assert_eq!(line.queue_bytes(), 64 << 20);
    }

    #[test]
    fn a_queue_has_the_requested_length_or_is_refused() {
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
        let error = |line: &mut Line, words| line.change(words).unwrap_err().to_string();
        assert!(error(&mut line, "speed 3").contains("use rate, delay"));
        assert!(error(&mut line, "rate").contains("needs a value"));
        // In netem the limit is a number of packets.
        assert!(error(&mut line, "limit 1000").contains("not a property of a line"));
    }

    #[test]
    fn impossible_properties_are_refused_with_a_reason() {
        assert!(line().check().is_ok());
        let error = |change: &str| {
            let mut line = line();
            line.change(change).unwrap();
            line.check().unwrap_err().to_string()
        };
        assert!(error("jitter 1s").contains("before it is sent"));
        assert!(error("delay 11s").contains("10s at most"));
        assert!(error("rate 1Tbit delay 1s").contains("GiB of memory"));
        assert!(error("queue 65535B").contains("64 KiB is the minimum"));
        let text = error("rate 1Mbit queue 100ms");
        assert!(text.starts_with("a queue of 12.2 KiB at 1Mbit may not hold"), "{text}");
    }
}
