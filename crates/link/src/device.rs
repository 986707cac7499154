//! A side of the link: a TUN device in a namespace.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::error::LinkError;
use crate::link::End;
use crate::namespace::{ip, within};

/// The queue length of a device in packets: those of the milliseconds in which the reading thread
/// may wait for a processor.
const FETCH_QUEUE: u32 = 10_000;

/// A device, and the counters of its namespace.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) tun: Arc<SyncDevice>,
    name: String,
    counters: Arc<File>,
}

impl Device {
    /// Creates the device and brings it up. It is removed with the last copy of this.
    pub(crate) fn new(end: &End, mtu: u16) -> Result<Self, LinkError> {
        within(&end.namespace, || {
            let device = end.device.clone();
            let failed = |error| {
                let namespace = end.namespace.clone();
                LinkError::Device { device: end.device.clone(), namespace, error }
            };
            let tun = DeviceBuilder::new()
                .name(&device)
                .layer(Layer::L3)
                .offload(true)
                .packet_information(false)
                .mtu(mtu)
                .tx_queue_len(FETCH_QUEUE)
                .enable(true)
                .build_sync()
                .map_err(failed)?;
            tun.set_nonblocking(true).map_err(failed)?;
            for address in &end.addresses {
                ip(&["address", "add", address, "dev", &device])?;
            }
            let counters = File::open("/proc/thread-self/net/dev").map_err(failed)?;
            Ok(Self { tun: Arc::new(tun), name: device, counters: Arc::new(counters) })
        })?
    }

    /// Returns the number of packets that the device dropped because they were not read in time.
    pub(crate) fn missed(&self) -> u64 {
        let mut text = vec![0; 64 << 10];
        let len = self.counters.read_at(&mut text, 0).unwrap_or(0);
        dropped(&String::from_utf8_lossy(&text[..len]), &self.name).unwrap_or(0)
    }
}

/// Returns the packets that an interface dropped on sending. See proc(5), `net/dev`: eight numbers
/// of receiving, then bytes, packets, errors and drops of sending.
fn dropped(text: &str, interface: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    line?.split_whitespace().nth(8 + 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_the_name_of_the_interface() {
        let text = "Inter-|   Receive | Transmit\n face |bytes packets\n  \
                    wan: 1 2 3 4 5 6 7 8  9 10 11 12 13 14 15 16\n  \
                    wan1:1 2 3 4 5 6 7 8  9 10 11 77 13 14 15 16\n";
        assert_eq!(dropped(text, "wan"), Some(12));
        assert_eq!(dropped(text, "wan1"), Some(77));
        assert_eq!(dropped(text, "wa"), None);
    }
}
