//! A rail that silently loses all packets, under a constant number of messages.

use std::time::Duration;

use fulmar_sim::options::{Line, Rails, Topology};
use fulmar_sim::{Cluster, HostId, Options};

use super::common::{cluster_of, faulty, pass, port, put_acked};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
const SIZES: [u32; 4] = [8, 4096, 65_536, 1 << 20];

/// A constant number of PUTs, each followed by one of the same length.
struct Load {
    cluster: Cluster,
    under_way: Vec<(usize, u32)>,
    /// Bytes of acknowledged PUTs.
    bytes: u64,
}

impl Load {
    fn new(options: &Options, window: usize) -> Self {
        let mut cluster = cluster_of(options);
        put_acked(&mut cluster, (A, B), 1);
        pass(&mut cluster, 1);
        let mut this = Self { cluster, under_way: Vec::new(), bytes: 0 };
        for place in 0..window {
            this.begin(SIZES[place % SIZES.len()]);
        }
        this
    }

    fn begin(&mut self, len: u32) {
        let nid = self.cluster.world.nid(B);
        let put = self.cluster.put_to((A, B), len, (None, nid)).expect("the node is up");
        self.under_way.push((put, len));
    }

    /// Runs for so many milliseconds; returns the rate in Mbit/s.
    fn rate(&mut self, millis: u64) -> f64 {
        let before = self.bytes;
        for _ in 0..millis {
            let end = self.cluster.world.now() + Duration::from_millis(1);
            self.cluster.run_until(end).unwrap();
            let operations = &self.cluster.ledger.operations;
            let (done, open) = std::mem::take(&mut self.under_way)
                .into_iter()
                .partition(|(put, _)| operations[*put].seen.response_ok);
            self.under_way = open;
            let done: Vec<(usize, u32)> = done;
            for (_, len) in done {
                self.bytes += u64::from(len);
                self.begin(len);
            }
        }
        (self.bytes - before) as f64 * 8.0 / 1e3 / millis as f64
    }
}

/// Two rails of 1 Gbit/s.
fn rails(nets: &[u16]) -> Options {
    let mut options = faulty(Rails::even(2, nets));
    options.network.topology = Topology::Mesh {
        cable: Line::new(1000, Duration::ZERO),
        delay_min: Duration::from_micros(20),
        delay_max: Duration::from_micros(20),
    };
    options
}

/// Nothing shows the loss to TCP for seconds. Until then the messages that are not yet on the silent
/// rail must not go there, although it has all its credits.
#[test]
fn a_silent_rail_leaves_the_other_its_traffic() {
    for (nets, before) in [([0, 1], 611), ([0, 1], 885), ([0, 0], 611)] {
        let mut load = Load::new(&rails(&nets), 64);
        let both = load.rate(before);
        assert!(both > 1600.0, "{nets:?}: {both:.0} Mbit/s over both");
        load.cluster.world.cut_link(port(B, 0), false);
        load.rate(250);
        let one = load.rate(250);
        assert!(one > 850.0, "{nets:?}: {one:.0} Mbit/s over the rail that is left");
    }
}
