//! The family `wan`: `lst`, and the files of a mount, across an emulated long link.

mod copies;
mod files;
mod lst;
mod path;
mod transfer;

use std::time::Duration;

pub(crate) use files::{list, open_inline, open_striped, open_warm, read, write};
pub(crate) use lst::{predicted, tuned, unconfigured};
pub(crate) use path::five_points;

/// The round trip of the study.
const ROUND_TRIP: Duration = Duration::from_micros(50_500);
/// The bits per second of a link that any machine sustains; more than the default credits of the kernel
/// fill at this round trip, which is 1.3 Gbit/s.
const SUSTAINED: u64 = 2_000_000_000;
