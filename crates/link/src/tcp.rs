//! The TCP settings of a namespace for a long link.

use std::io::ErrorKind;

use crate::error::LinkError;
use crate::line::Line;
use crate::namespace::{ip, set, within};

/// Settings of TCP in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The maximum of a socket's send and receive buffers in bytes.
    pub buffer: u64,
    /// The congestion control, such as `bbr` or `cubic`; the kernel's default if `None`.
    pub congestion: Option<String>,
}

/// The kernel's defaults: the minimum, and the initial size.
const RECEIVE: &str = "4096 131072";
const SEND: &str = "4096 16384";
/// The default maximum of most kernels.
const LEAST: u64 = 6 << 20;
/// The largest window of TCP.
const MOST: u64 = 1 << 30;
/// A buffer holds the data in flight and the unread data, with the kernel's structures; half of it
/// may be unused while the window grows.
const ROUND_TRIPS: u64 = 4;

impl Tcp {
    /// Returns the settings for one connection to fill a path of these two directions: buffers of
    /// four times the data of a round trip at the higher rate.
    pub fn filling(lines: &[Line; 2]) -> Self {
        let [there, back] = lines;
        let rate = there.rate.max(back.rate);
        let product = rate.bytes_in(there.delay + back.delay);
        let buffer = product.saturating_mul(ROUND_TRIPS).clamp(LEAST, MOST);
        Self { buffer, congestion: None }
    }

    /// Applies them in a namespace: `net.ipv4.tcp_rmem`, `tcp_wmem`, `tcp_congestion_control`, and
    /// `tcp_no_metrics_save`, so that a connection does not start with the metrics of another.
    ///
    /// # Errors
    /// If the system refuses a setting.
    pub fn set(&self, namespace: &str) -> Result<(), LinkError> {
        set(namespace, "ipv4/tcp_rmem", &format!("{RECEIVE} {}", self.buffer))?;
        set(namespace, "ipv4/tcp_wmem", &format!("{SEND} {}", self.buffer))?;
        set(namespace, "ipv4/tcp_no_metrics_save", "1")?;
        match &self.congestion {
            Some(name) => set_congestion(namespace, name),
            None => Ok(()),
        }
    }
}

/// Sets the congestion control of a namespace. If the kernel restricts it, the namespace's
/// connected routes select it: routes may use any of the kernel's.
///
/// # Errors
/// If the system refuses it.
pub fn set_congestion(namespace: &str, name: &str) -> Result<(), LinkError> {
    match set(namespace, "ipv4/tcp_congestion_control", name) {
        Err(LinkError::Setting { error, .. }) if error.kind() == ErrorKind::PermissionDenied => {
            within(namespace, || routes_choose(name))?
        }
        result => result,
    }
}

/// Sets the congestion control of the connected routes in the namespace of the thread.
fn routes_choose(congestion: &str) -> Result<(), LinkError> {
    for family in ["-4", "-6"] {
        for route in ip(&[family, "route", "show", "proto", "kernel"])?.lines() {
            let mut words = vec![family, "route", "replace"];
            words.extend(route.split_whitespace());
            words.extend(["proto", "kernel", "congctl", congestion]);
            ip(&words)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn buffers_hold_several_round_trips() {
        let line = |rate: &str| Line::new(rate.parse().unwrap(), Duration::from_micros(25_250));
        let buffer = |rate| Tcp::filling(&[line(rate), line("1Mbit")]).buffer;
        assert_eq!(buffer("10Gbit"), 4 * 63_125_000);
        assert_eq!(buffer("1Mbit"), LEAST);
        assert_eq!(buffer("1Tbit"), MOST);
    }
}
