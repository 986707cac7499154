//! Advice in the languages of the tools.

use std::fmt::Write;

use serde::Serialize;

use crate::advice::plan::opening;
use crate::advice::{Advice, Congestion, Place, Setting, Whose};
use crate::model::Kind;

/// Names that the texts contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Names {
    /// The network of LNet, such as `tcp`.
    pub net: String,
    /// The network device, such as `eth0`.
    pub interface: String,
    /// Whether the device has several transmit queues, each with a queueing discipline of its own.
    pub has_queues: bool,
    /// NIDs of the clients, for `lst run --from`.
    pub clients: String,
    /// NIDs of the servers.
    pub servers: String,
}

impl Default for Names {
    fn default() -> Self {
        let [net, interface, clients, servers] =
            ["tcp", "eth0", "CLIENTS", "SERVERS"].map(str::to_owned);
        Self { net, interface, has_queues: false, clients, servers }
    }
}

/// The language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// The file of `fulmar node -c`.
    Node,
    /// Commands of `lnetctl`.
    Lnetctl,
    /// A file of modprobe.d.
    Modprobe,
    /// A file of sysctl.d.
    Sysctl,
    /// Commands of `lctl`.
    Lctl,
    /// Commands of `ip` and `tc`.
    Device,
    /// A measuring command.
    Lst,
}

/// A complete text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Its language.
    pub language: Language,
    /// Its title, with the place.
    pub title: String,
    /// The text; lines end in a newline.
    pub text: String,
}

/// Returns all texts for a site.
pub fn blocks(advice: &Advice, names: &Names) -> Vec<Block> {
    let site = &advice.site;
    let of = |language, title: &str, text| Block { language, title: title.into(), text };
    let mut blocks = Vec::new();
    match site.whose {
        Whose::Fulmar => {
            let text = node(advice, names, false);
            blocks.push(of(Language::Node, "node.yaml, for fulmar node -c node.yaml", text));
            if site.routers > 0 {
                let text = node(advice, names, true);
                blocks.push(of(Language::Node, "router.yaml, the same for a router", text));
            }
        }
        Whose::Kernel => {
            let title = "/etc/modprobe.d/lnet-long-path.conf, on clients, servers and routers";
            blocks.push(of(Language::Modprobe, title, modprobe(advice, names)));
        }
    }
    let title = "lnetctl, until the next start";
    blocks.push(of(Language::Lnetctl, title, lnetctl(advice, names)));
    if site.kind == Kind::Lustre {
        let title = "lctl; with -P on the MGS, permanently";
        blocks.push(of(Language::Lctl, title, lctl(advice)));
    }
    let title = "/etc/sysctl.d/90-long-path.conf, then sysctl --system";
    blocks.push(of(Language::Sysctl, title, sysctl(advice)));
    blocks.push(of(Language::Device, "the network device", device(advice, names)));
    if site.kind == Kind::Selftest {
        blocks.push(of(Language::Lst, "measure", lst(advice, names)));
    }
    blocks
}

fn node(advice: &Advice, names: &Names, is_router: bool) -> String {
    let plan = &advice.plan;
    let Names { net, interface, .. } = names;
    let roles = if is_router { "lnet" } else { "lnet, selftest" };
    let mut text = format!(
        "node:
    roles: [{roles}]
net:
    - net type: {net}
      local NI(s):
        - interfaces:
              0: {interface}
          tunables:
              peer_credits: {}
              credits: {}
",
        plan.peer_credits, plan.credits,
    );
    if advice.site.routers > 0 {
        let credits = plan.peer_buffer_credits;
        let _ = writeln!(text, "              peer_buffer_credits: {credits}");
    }
    let connections = plan.conns_per_peer;
    let _ = writeln!(text, "          lnd tunables:\n              conns_per_peer: {connections}");
    if is_router {
        let (tiny, small, large) = (plan.tiny_buffers, plan.small_buffers, plan.large_buffers);
        let _ = write!(
            text,
            "routing:\n    enable: 1\nbuffers:\n    tiny: {tiny}\n    small: {small}\n    \
             large: {large}\n"
        );
    }
    text
}

fn modprobe(advice: &Advice, names: &Names) -> String {
    let Names { net, interface, .. } = names;
    let mut lnet = format!("options lnet networks=\"{net}({interface})\"");
    let mut socklnd = String::from("options ksocklnd");
    for Setting { name, place, advised, .. } in &advice.settings {
        let line = match place {
            Place::Interface => &mut socklnd,
            Place::Lnet => &mut lnet,
            _ => continue,
        };
        let _ = write!(line, " {name}={advised}");
    }
    let routers = match advice.site.routers {
        0 => "",
        _ => "# routers also need forwarding=enabled and their networks, all others routes=\n",
    };
    format!("{routers}{lnet}\n{socklnd}\n")
}

/// How to change a kernel node that has a mount.
const MOUNTED: &str = "\
# A node with a file system mounted keeps its network: first umount -a -t lustre, at last mount -a -t lustre.
# The same with modprobe.d: umount -a -t lustre && lustre_rmmod && mount -a -t lustre
";

fn lnetctl(advice: &Advice, names: &Names) -> String {
    let plan = &advice.plan;
    let Names { net, interface, .. } = names;
    let tool = match advice.site.whose {
        Whose::Fulmar => "fulmar lnetctl",
        Whose::Kernel => "lnetctl",
    };
    let has_routers = advice.site.routers > 0;
    let router_credits = if has_routers {
        format!(" --peer-buffer-credits {}", plan.peer_buffer_credits)
    } else {
        String::new()
    };
    let mut text = match advice.site.whose {
        Whose::Fulmar => String::new(),
        Whose::Kernel => MOUNTED.to_owned(),
    };
    let _ = write!(
        text,
        "{tool} net del --net {net}\n{tool} net add --net {net} --if {interface} --peer-credits {} \
         --credits {}{router_credits} --conns-per-peer {}\n",
        plan.peer_credits, plan.credits, plan.conns_per_peer
    );
    if has_routers {
        text.push_str("# on routers, after the networks\n");
        let values = [
            ("tiny_buffers", plan.tiny_buffers),
            ("small_buffers", plan.small_buffers),
            ("large_buffers", plan.large_buffers),
            ("routing", 1),
        ];
        for (name, value) in values {
            let _ = writeln!(text, "{tool} set {name} {value}");
        }
    }
    text
}

fn lctl(advice: &Advice) -> String {
    let mut text = String::new();
    for Setting { name, place, advised, .. } in &advice.settings {
        if *place == Place::Lustre {
            let _ = writeln!(text, "lctl set_param {name}={advised}");
        }
    }
    text
}

fn sysctl(advice: &Advice) -> String {
    let mut text = match advice.plan.congestion {
        Congestion::Bbr => String::from("# bbr is a separate module: modprobe tcp_bbr\n"),
        Congestion::Cubic => String::new(),
    };
    for Setting { name, place, advised, .. } in &advice.settings {
        if *place == Place::Sysctl {
            let _ = writeln!(text, "{name} = {advised}");
        }
    }
    text
}

fn device(advice: &Advice, names: &Names) -> String {
    let device = &names.interface;
    let (mtu, queue) = (advice.site.mtu, advice.plan.tx_queue);
    // mq gives each queue one of the kind default_qdisc; a single fq for all would be a bottleneck.
    let root = if names.has_queues { "mq" } else { "fq" };
    let after =
        if names.has_queues { "# after sysctl --system, for an fq of each queue\n" } else { "" };
    format!(
        "ip link set dev {device} mtu {mtu} txqueuelen {queue}\n\
         {after}tc qdisc replace dev {device} root {root}\n"
    )
}

/// Returns the command line of `fulmar lst run` that measures the advice.
fn lst(advice: &Advice, names: &Names) -> String {
    let Names { clients, servers, .. } = names;
    let direction = advice.site.direction.name();
    let warmup = opening(&advice.site, &advice.plan).ceil().clamp(1., 60.);
    let concurrency = advice.plan.concurrency;
    format!(
        "fulmar lst run --from {clients} --to {servers} brw {direction} --size 1M --concurrency \
         {concurrency} --time 30 --warmup {warmup}\n"
    )
}
