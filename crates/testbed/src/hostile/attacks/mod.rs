//! The table of attacks.

mod damage;
mod handshakes;
mod hijack;
mod noise;
mod peers;
mod readers;
mod rpc;
mod rpc_locks;
mod selftest;
mod sources;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::attacker::{Attacker, Orders, Tally};

pub(super) use sources::{ALLOWED, BEHIND};

/// What the attacked node is configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// One network, and default settings.
    Plain,
    /// The attacker is its gateway to another network.
    Gateway,
    /// `accept_nid` allows the attacker many NIDs.
    Allowed,
    /// It routes between two networks; the honest traffic passes through it.
    Router,
    /// The attacker comes from a second network, with IPv6.
    Ipv6,
    /// It has 256 descriptors.
    FewDescriptors,
    /// It serves a management service and an OST, beside an honest client of them.
    Targets,
}

/// One way to attack a node.
#[derive(Debug)]
pub struct Attack {
    /// `family.what`.
    pub name: &'static str,
    /// What the attacker does.
    pub what: &'static str,
    /// What it needs.
    pub setup: Setup,
    run: fn(&mut Attacker) -> io::Result<()>,
}

macro_rules! attacks {
    ($($name:literal $setup:ident $run:expr, $what:literal;)+) => {
        /// All attacks. Each is limited to one core by the affinity of its process.
        pub const ATTACKS: &[Attack] = &[
            $( Attack { name: $name, what: $what, setup: Setup::$setup, run: $run }, )+
        ];
    };
}

attacks! {
    "sources.foreign" Plain sources::foreign, "GETs from 1,500 nodes that do not answer";
    "sources.gateway_read" Gateway |a| sources::behind_gateway(a, true),
        "as a gateway, GETs from 70,000 nodes behind it";
    "sources.gateway_unread" Gateway |a| sources::behind_gateway(a, false),
        "the same, without reading the replies";
    "sources.allowed" Allowed sources::allowed, "60,000 allowed NIDs, each gone before its reply";
    "sources.claimed" Plain sources::claimed, "hellos with any NID from privileged ports";
    "readers.pings" Plain |a| readers::pings_unread(a, 1), "pings, without reading the replies";
    "readers.pings_slow" Plain readers::pings_slow, "the same, reading a little now and then";
    "readers.identities" Plain |a| readers::pings_unread(a, 40), "40 nodes that do not read";
    "readers.two_groups" Plain readers::two_groups, "40 nodes of which half read, in turns";
    "readers.bulk" Plain |a| readers::bulk_unread(a, 1, false), "1 MiB bulk reads, not read";
    "readers.bulk_slow" Plain |a| readers::bulk_unread(a, 8, true), "bulk reads, read slowly";
    "readers.bulk_identities" Plain |a| readers::bulk_unread(a, 40, false),
        "bulk reads of 40 nodes, not read";
    "peers.nids" Plain peers::many_nids, "pushes that list 4,000 random NIDs each";
    "peers.identities" Plain peers::many_identities, "60,000 nodes that ping once and are gone";
    "peers.pushes" Plain peers::pushes, "pushes of every kind, valid and not";
    "hijack.primary" Plain hijack::primary, "pushes and ping info that name a victim as primary";
    "hijack.listed" Plain hijack::listed, "pushes and ping info that list a victim's NIDs";
    "hijack.source" Plain hijack::source, "messages whose source is a victim's NID";
    "selftest.bulk" Plain selftest::bulk_unanswered, "bulk writes whose GETs are never answered";
    "selftest.acks" Plain selftest::acks, "requests that ask for an ACK, nothing is read";
    "selftest.sessions" Plain selftest::sessions, "sessions and tests of nodes that do not answer";
    "handshakes.half_open" Plain |a| handshakes::half_open(a, 1), "4,400 without a hello";
    "handshakes.addresses" Plain |a| handshakes::half_open(a, 200), "the same of 200 addresses";
    "handshakes.half_messages" Plain handshakes::half_messages, "1,000 messages without their end";
    "handshakes.slow" Plain handshakes::slow, "400 connections that write a byte per second";
    "handshakes.churn" Plain handshakes::churn, "connections, opened and closed";
    "handshakes.races" Plain handshakes::races, "hundreds of the same kind, new incarnations";
    "handshakes.descriptors" FewDescriptors |a| handshakes::descriptors(a, false),
        "1,000 connections with a node of 256 descriptors";
    "handshakes.used_once" FewDescriptors |a| handshakes::descriptors(a, true),
        "the same, each after a ping";
    "damage.messages" Plain damage::damaged, "valid messages and hellos, damaged at random";
    "noise.noops" Plain |a| noise::noops(a, false), "acknowledgements of nothing";
    "noise.keepalives" Plain |a| noise::noops(a, true), "keepalives";
    "noise.zero_copy" Plain noise::zero_copy, "payloads to acknowledge, nothing is read";
    "noise.portals" Plain noise::portals, "PUTs to every portal, answers to nothing";
    "router.silent" Router noise::routed, "PUTs of 1 MiB to silent nodes behind a router, and back";
    "router.unread" Router |a| readers::pings_unread(a, 40), "a router's peers that do not read";
    "ipv6.half_open" Ipv6 |a| handshakes::half_open(a, 5000), "half-open, of 5,000 addresses";
    "ipv6.damage" Ipv6 damage::damaged, "damaged messages in version 4";
    "rpc.connects" Targets rpc::connects, "10,000 connects of one node, without reading the replies";
    "rpc.handles" Targets rpc::handles, "requests and connects in the name of others";
    "rpc.sizes" Targets rpc::sizes, "requests with one buffer of another size";
    "rpc.xids" Targets rpc::xids, "XIDs again, backwards, and of another connection";
    "rpc.damage" Targets rpc::damaged, "requests, damaged at random, and halves of them";
    "rpc.bulk_unanswered" Targets rpc::bulk_unanswered, "reads and writes whose data never move";
    "rpc.bulk_sizes" Targets rpc::bulk_sizes, "writes with more or fewer bytes than promised";
    "rpc.callbacks" Targets rpc_locks::callbacks_unanswered,
        "locks that others want, callbacks are not answered";
    "rpc.locks_of_others" Targets rpc_locks::of_others, "cancels and converts of others' locks";
    "rpc.locks_invalid" Targets rpc_locks::invalid, "locks of types and modes that do not exist";
}

impl Attack {
    /// Returns the attack of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ATTACKS.iter().find(|attack| attack.name == name)
    }

    /// Returns whether it is possible against a node with this setup.
    pub fn fits(&self, setup: Setup) -> bool {
        self.setup == setup || (self.setup == Setup::Plain && setup != Setup::Targets)
    }
}

/// Runs an attack until `end` is set, and returns what it has counted.
///
/// # Errors
/// Why it cannot run.
pub fn run(orders: &Orders, end: Arc<AtomicBool>) -> Result<Tally, String> {
    let attack = Attack::named(&orders.attack)
        .ok_or_else(|| format!("there is no attack {:?}", orders.attack))?;
    let mut attacker = Attacker::new(orders, end);
    (attack.run)(&mut attacker).map_err(|error| format!("{}: {error}", attack.name))?;
    Ok(attacker.tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attack_has_a_name_of_its_own() {
        for attack in ATTACKS {
            assert_eq!(Attack::named(attack.name).unwrap().what, attack.what);
        }
    }
}
