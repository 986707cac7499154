//! The command line of `fulmar link`.

use std::str::FromStr;
use std::time::Duration;

use fulmar_link::{
    DEFAULT_DEVICE, DEFAULT_MTU, End, Line, Queue, Rate, Share, Sites, Size, Tcp, UnitError,
    words_of_time,
};

/// Create two network namespaces joined by a long link
///
/// The namespaces are fulmar-NAME-a and fulmar-NAME-b, each with a device wan0. Their TCP buffers
/// are sized to fill the link. When this command ends it removes both; programs still running in
/// them get SIGHUP, then SIGKILL. If it is killed (SIGKILL), the link is removed at once, and the
/// namespaces at the next run of "fulmar link sites". A command given after -- runs at site A, and
/// the sites exist until it ends.
///
///   fulmar link sites --rate 10Gbit --rtt 50.5ms
///   ip netns exec fulmar-site-b iperf3 -s
///   ip netns exec fulmar-site-a iperf3 -c 10.99.0.2
///
///   fulmar link sites --rtt 100ms -- ping 10.99.0.2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct SiteArgs {
    /// Name of the sites: small letters and digits
    #[arg(long, value_name = "NAME", default_value = "site")]
    pub(super) name: String,
    /// Addresses of site A
    #[arg(long, value_name = "ADDR/LEN", value_delimiter = ',', default_value = "10.99.0.1/24")]
    pub(super) addr_a: Vec<String>,
    /// Addresses of site B
    #[arg(long, value_name = "ADDR/LEN", value_delimiter = ',', default_value = "10.99.0.2/24")]
    pub(super) addr_b: Vec<String>,
    /// Congestion control of TCP at both sites, such as bbr or cubic [default: this kernel's]
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
    /// Limit of socket buffers, such as 256M [default: four round trips at the rate]
    #[arg(long, value_name = "SIZE")]
    pub(super) tcp_buffer: Option<Size>,
    #[command(flatten)]
    pub(super) link: LinkArgs,
    #[command(flatten)]
    pub(super) line: LineArgs,
    /// Command to run at site A, with the namespaces in $FULMAR_SITE_A and _B, and the addresses in
    /// $FULMAR_ADDR_A and _B
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// Properties of the line.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Properties of each direction")]
pub(super) struct LineArgs {
    /// Rate of the line, Ethernet framing included
    #[arg(long, value_name = "RATE", default_value = "10Gbit")]
    rate: Rate,
    /// One-way delay [default: half of 50.5ms]
    #[arg(long, value_name = "TIME", value_parser = words_of_time, conflicts_with = "rtt")]
    delay: Option<Duration>,
    /// Round-trip delay, instead of --delay
    #[arg(long, value_name = "TIME", value_parser = words_of_time)]
    rtt: Option<Duration>,
    /// Jitter: variation of the delay to either side; packets keep their order
    #[arg(long, value_name = "TIME", value_parser = words_of_time, default_value = "0")]
    jitter: Duration,
    /// Share of segments that are lost at random, such as 0.01% or 1e-4
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    loss: Share,
    /// Share of segments that are delayed more, so that others overtake them
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    reorder: Share,
    /// Additional delay of these segments
    #[arg(long, value_name = "TIME", value_parser = words_of_time, default_value = "1ms")]
    reorder_by: Duration,
    /// Limit of the queue, such as 64MB or 100ms [default: one round trip at the rate]
    #[arg(long, value_name = "SIZE|TIME")]
    queue: Option<Queue>,
    /// Differences in the direction from A to B, such as 'rate 1Gbit loss 0.1%'
    #[arg(long, value_name = "WORDS")]
    a_to_b: Option<String>,
    /// Differences in the direction from B to A
    #[arg(long, value_name = "WORDS")]
    b_to_a: Option<String>,
}

/// Options of both forms of the command.
#[derive(Debug, clap::Args)]
pub(super) struct LinkArgs {
    /// MTU: the longest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MTU,
        value_parser = clap::value_parser!(u16).range(576..))]
    pub(super) mtu: u16,
    /// Seed of random events: the same seed and traffic give the same losses
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print a line of JSON each second, and one at the end
    #[arg(long)]
    pub(super) json: bool,
}

impl LineArgs {
    /// Returns the direction from A to B, and that from B to A.
    pub(super) fn lines(&self) -> Result<[Line; 2], UnitError> {
        let half = self.rtt.unwrap_or(Duration::from_micros(50_500)) / 2;
        let both = Line {
            jitter: self.jitter,
            loss: self.loss,
            reorder: self.reorder,
            reorder_by: self.reorder_by,
            queue: self.queue.unwrap_or(Queue::RoundTrip),
            ..Line::new(self.rate, self.delay.unwrap_or(half))
        };
        let mut lines = [both; 2];
        for (line, words) in lines.iter_mut().zip([&self.a_to_b, &self.b_to_a]) {
            line.change(words.as_deref().unwrap_or_default())?;
        }
        Ok(lines)
    }
}

impl SiteArgs {
    /// Returns notes on the sites for the user.
    pub(super) fn notes(&self, sites: &Sites, tcp: &Tcp) -> Vec<String> {
        let [a, b] = sites.namespaces();
        let mut notes = vec![
            format!("Site A is {}: ip netns exec {a} COMMAND", self.addr_a.join(", ")),
            format!("Site B is {}: ip netns exec {b} COMMAND", self.addr_b.join(", ")),
            format!(
                "At both sites net.ipv4.tcp_rmem and tcp_wmem are limited to {} bytes ({}).",
                tcp.buffer,
                Size(tcp.buffer)
            ),
        ];
        if let Some(congestion) = &tcp.congestion {
            notes.push(format!("net.ipv4.tcp_congestion_control is {congestion}."));
        }
        notes.push("The sites exist until this command is interrupted.".into());
        notes
    }

    /// Returns environment variables of the command.
    pub(super) fn environment(&self, sites: &Sites) -> [(&'static str, String); 4] {
        let [a, b] = sites.namespaces().map(str::to_owned);
        let first = |addresses: &[String]| {
            let address = addresses.first().map(String::as_str).unwrap_or_default();
            address.split('/').next().unwrap_or_default().to_owned()
        };
        [
            ("FULMAR_SITE_A", a),
            ("FULMAR_SITE_B", b),
            ("FULMAR_ADDR_A", first(&self.addr_a)),
            ("FULMAR_ADDR_B", first(&self.addr_b)),
        ]
    }
}

/// `NS[:DEV][=ADDR,...]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EndArg(pub(super) End);

impl FromStr for EndArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, addresses) = text.split_once('=').unwrap_or((text, ""));
        let (namespace, device) = place.split_once(':').unwrap_or((place, DEFAULT_DEVICE));
        if namespace.is_empty() || device.is_empty() {
            return Err("write it as NAMESPACE:DEVICE=ADDRESS/LENGTH".into());
        }
        if device.len() > 15 || device.contains('/') {
            return Err(format!(
                "{device:?} is not a valid device name: at most 15 characters, no slash"
            ));
        }
        let addresses = addresses.split(',').filter(|address| !address.is_empty());
        Ok(Self(End {
            namespace: namespace.to_owned(),
            device: device.to_owned(),
            addresses: addresses.map(str::to_owned).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        line: LineArgs,
    }

    fn lines(words: &str) -> [Line; 2] {
        let words = Words::parse_from(["link"].into_iter().chain(words.split_whitespace()));
        words.line.lines().unwrap()
    }

    #[test]
    fn an_end_has_a_namespace_a_device_and_addresses() {
        let end = |text: &str| text.parse::<EndArg>().map(|end| end.0);
        let full = end("east:eth7=10.0.0.1/24,fd00::1/64").unwrap();
        assert_eq!((full.namespace.as_str(), full.device.as_str()), ("east", "eth7"));
        assert_eq!(full.addresses, ["10.0.0.1/24", "fd00::1/64"]);
        let short = end("/proc/self/ns/net").unwrap();
        assert_eq!((short.device.as_str(), short.addresses.len()), ("wan0", 0));
        assert_eq!(end("east=10.0.0.1/24").unwrap().addresses, ["10.0.0.1/24"]);
        assert!(end(":wan0").is_err() && end("east:a_name_that_is_long").is_err());
    }

    #[test]
    fn rtt_is_halved_and_delay_is_not() {
        let delays = |words| lines(words).map(|line| line.delay.as_micros());
        assert_eq!(delays(""), [25_250; 2]);
        assert_eq!(delays("--rtt 10ms"), [5_000; 2]);
        assert_eq!(delays("--delay 10ms"), [10_000; 2]);
    }

    #[test]
    fn options_of_one_direction_change_only_that_direction() {
        let words = ["link", "--loss", "1%", "--a-to-b", "rate 1Gbit", "--b-to-a", "loss 0%"];
        let [there, back] = Words::parse_from(words).line.lines().unwrap();
        assert_eq!((there.rate.bits(), there.loss), (1_000_000_000, Share(0.01)));
        assert_eq!((back.rate.bits(), back.loss), (10_000_000_000, Share::NONE));
        // The default queue follows the rate.
        assert_eq!(there.queue_bytes() * 10, back.queue_bytes());
        let wrong = Words::parse_from(["link", "--a-to-b", "speed 3"]).line.lines();
        assert!(wrong.unwrap_err().to_string().contains("speed"));
    }
}
