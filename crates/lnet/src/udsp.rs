//! User-defined selection policies: which networks, interfaces, NIDs and gateways are preferred.
//!
//! A rule with one criterion gives a priority to what it names; one with two makes a list of
//! preferred NIDs or gateways. Where rules disagree the first in the list wins. Everything here is
//! a question of the rules alone: selection asks when an interface or a peer appears and when the
//! rules change, and keeps the answers. Spec: lnet-behaviour §12.

use fulmar_base::Errno;
use fulmar_lnet_wire::{Net, Nid, Selector};

use crate::views::PRIORITY_LOWEST;

/// One rule, as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdspRule {
    /// Our networks or NIDs.
    pub src: Option<Selector>,
    /// Networks or NIDs of peers.
    pub dst: Option<Selector>,
    /// NIDs of gateways.
    pub rte: Option<Selector>,
    /// 0 is the highest, and meant where a rule with one criterion says nothing.
    pub priority: Option<u32>,
}

impl UdspRule {
    /// Requires one of the forms that have an effect: ours, theirs, ours with theirs, or theirs
    /// with gateways. Only the first two have a priority, and they always have one.
    fn checked(mut self) -> Result<Self, Errno> {
        match (&self.src, &self.dst, &self.rte) {
            (Some(_), None, None) | (None, Some(_), None) => {
                self.priority = self.priority.or(Some(0));
            }
            (Some(_), Some(_), None) | (None, Some(_), Some(_)) if self.priority.is_none() => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(self)
    }

    fn has_criteria_of(&self, other: &Self) -> bool {
        self.src == other.src && self.dst == other.dst && self.rte == other.rte
    }

    /// Returns the criterion of a rule about our side alone.
    fn only_src(&self) -> Option<&Selector> {
        self.src.as_ref().filter(|_| self.dst.is_none() && self.rte.is_none())
    }

    /// Returns the criterion of a rule about the other side alone.
    fn only_dst(&self) -> Option<&Selector> {
        self.dst.as_ref().filter(|_| self.src.is_none() && self.rte.is_none())
    }
}

/// The rules, in the order in which they count.
#[derive(Debug, Default)]
pub(crate) struct Udsp {
    rules: Vec<UdspRule>,
}

impl Udsp {
    pub(crate) fn rules(&self) -> &[UdspRule] {
        &self.rules
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the priority of one of our networks.
    pub(crate) fn net_priority(&self, net: Net) -> u32 {
        self.priority(UdspRule::only_src, |selector| selector.contains_net(net))
    }

    /// Returns the priority of one of our interfaces.
    pub(crate) fn ni_priority(&self, nid: Nid) -> u32 {
        self.priority(UdspRule::only_src, |selector| !selector.is_net() && selector.contains(nid))
    }

    /// Returns the priority of a network of peers.
    pub(crate) fn peer_net_priority(&self, net: Net) -> u32 {
        self.priority(UdspRule::only_dst, |selector| selector.contains_net(net))
    }

    /// Returns the priority of a NID of a peer.
    pub(crate) fn peer_ni_priority(&self, nid: Nid) -> u32 {
        self.priority(UdspRule::only_dst, |selector| !selector.is_net() && selector.contains(nid))
    }

    /// Returns those of our NIDs that are preferred towards a NID of a peer.
    pub(crate) fn preferred_nids(&self, peer: Nid, ours: &[Nid]) -> Vec<Nid> {
        self.preferred(peer, ours, |rule| rule.src.as_ref())
    }

    /// Returns those of the gateways that are preferred towards a NID of a peer.
    pub(crate) fn preferred_gateways(&self, peer: Nid, gateways: &[Nid]) -> Vec<Nid> {
        self.preferred(peer, gateways, |rule| rule.rte.as_ref())
    }

    fn priority(
        &self,
        criterion: impl Fn(&UdspRule) -> Option<&Selector>,
        named: impl Fn(&Selector) -> bool,
    ) -> u32 {
        let first = self.rules.iter().find(|rule| criterion(rule).is_some_and(&named));
        first.and_then(|rule| rule.priority).unwrap_or(PRIORITY_LOWEST)
    }

    /// A rule that names none of those at hand leaves the list to the next.
    fn preferred(
        &self,
        peer: Nid,
        among: &[Nid],
        criterion: impl Fn(&UdspRule) -> Option<&Selector>,
    ) -> Vec<Nid> {
        let lists = self.rules.iter().filter_map(|rule| {
            let (dst, other) = (rule.dst.as_ref()?, criterion(rule)?);
            let named = |nid: &&Nid| dst.contains(peer) && other.contains(**nid);
            Some(among.iter().filter(named).copied().collect::<Vec<_>>())
        });
        lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
    }

    /// Adds a rule at `index`, or at the end. One that is there already keeps its place.
    pub(crate) fn add(&mut self, index: Option<usize>, rule: UdspRule) -> Result<(), Errno> {
        let rule = rule.checked()?;
        match self.rules.iter_mut().find(|known| known.has_criteria_of(&rule)) {
            Some(known) if *known == rule => Err(Errno::EALREADY),
            Some(known) => {
                known.priority = rule.priority;
                Ok(())
            }
            None => {
                let end = self.rules.len();
                self.rules.insert(index.map_or(end, |index| index.min(end)), rule);
                Ok(())
            }
        }
    }

    pub(crate) fn del(&mut self, index: Option<usize>) -> Result<(), Errno> {
        match index {
            None => self.rules.clear(),
            Some(index) if index < self.rules.len() => drop(self.rules.remove(index)),
            Some(_) => return Err(Errno::ENOENT),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(text: &str) -> Nid {
        text.parse().unwrap()
    }

    /// Reads `src tcp dst 10.0.0.1@tcp rte … priority 3`.
    fn rule(text: &str) -> UdspRule {
        let mut rule = UdspRule::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks(2) {
            match pair[0] {
                "src" => rule.src = Some(pair[1].parse().unwrap()),
                "dst" => rule.dst = Some(pair[1].parse().unwrap()),
                "rte" => rule.rte = Some(pair[1].parse().unwrap()),
                "priority" => rule.priority = Some(pair[1].parse().unwrap()),
                other => panic!("{other} is no part of a rule"),
            }
        }
        rule
    }

    fn rules(all: &[&str]) -> Udsp {
        let mut udsp = Udsp::default();
        for text in all {
            udsp.add(None, rule(text)).unwrap_or_else(|errno| panic!("{text}: {errno}"));
        }
        udsp
    }

    #[test]
    fn one_criterion_gives_a_priority_to_what_it_names() {
        let ours = rules(&["src tcp priority 5", "src 10.0.0.[1-2]@tcp"]);
        assert_eq!(ours.net_priority(Net::TCP), 5);
        assert_eq!(ours.ni_priority(nid("10.0.0.2@tcp")), 0, "no priority means the highest");
        assert_eq!(ours.ni_priority(nid("10.0.0.3@tcp")), PRIORITY_LOWEST);
        assert_eq!(ours.net_priority(nid("10.0.0.1@tcp1").net()), PRIORITY_LOWEST);
        assert_eq!(ours.peer_net_priority(Net::TCP), PRIORITY_LOWEST);
        assert_eq!(ours.peer_ni_priority(nid("10.0.0.2@tcp")), PRIORITY_LOWEST);
        let theirs = rules(&["dst o2ib[1-2] priority 7", "dst 10.1.0.*@o2ib1 priority 2"]);
        assert_eq!(theirs.peer_net_priority(nid("10.1.0.1@o2ib2").net()), 7);
        assert_eq!(theirs.peer_ni_priority(nid("10.1.0.9@o2ib1")), 2);
        assert_eq!(theirs.ni_priority(nid("10.1.0.9@o2ib1")), PRIORITY_LOWEST);
    }

    #[test]
    fn a_network_names_no_interface_and_an_interface_no_network() {
        let udsp = rules(&["src tcp", "dst *@tcp1"]);
        assert_eq!(udsp.ni_priority(nid("10.0.0.1@tcp")), PRIORITY_LOWEST);
        assert_eq!(udsp.peer_net_priority(nid("10.0.0.1@tcp1").net()), PRIORITY_LOWEST);
        assert_eq!(udsp.peer_ni_priority(nid("10.0.0.1@tcp1")), 0);
    }

    #[test]
    fn two_criteria_make_a_list_and_no_priority() {
        let ours = ["10.0.0.1@tcp", "10.0.1.1@tcp", "10.0.0.1@tcp1"].map(nid);
        let udsp = rules(&["src 10.0.0.*@tcp dst 10.9.0.[1-4]@tcp"]);
        assert_eq!(udsp.preferred_nids(nid("10.9.0.4@tcp"), &ours), [ours[0]]);
        assert_eq!(udsp.preferred_nids(nid("10.9.0.5@tcp"), &ours), []);
        assert_eq!(udsp.ni_priority(ours[0]), PRIORITY_LOWEST);
        assert_eq!(udsp.peer_ni_priority(nid("10.9.0.4@tcp")), PRIORITY_LOWEST);
        let gateways = ["10.2.0.1@o2ib1", "10.2.0.2@o2ib1"].map(nid);
        let udsp = rules(&["dst 10.1.1.*@o2ib rte 10.2.0.2@o2ib1"]);
        assert_eq!(udsp.preferred_gateways(nid("10.1.1.7@o2ib"), &gateways), [gateways[1]]);
        assert_eq!(udsp.preferred_gateways(nid("10.1.2.7@o2ib"), &gateways), []);
        assert_eq!(udsp.preferred_nids(nid("10.1.1.7@o2ib"), &gateways), []);
    }

    #[test]
    fn the_lowest_index_wins() {
        let ours = ["10.0.0.1@tcp", "10.0.1.1@tcp"].map(nid);
        let mut udsp = rules(&[
            "src *@tcp priority 9",
            "src 10.0.0.1@tcp priority 1",
            "src 10.7.0.1@tcp dst *@tcp",
            "src 10.0.1.1@tcp dst *@tcp",
            "src 10.0.0.1@tcp dst 10.9.0.1@tcp",
        ]);
        assert_eq!(udsp.ni_priority(ours[0]), 9);
        // The first rule of the list names no interface that there is.
        assert_eq!(udsp.preferred_nids(nid("10.9.0.1@tcp"), &ours), [ours[1]]);
        udsp.add(Some(0), rule("src 10.0.0.[1-2]@tcp priority 4")).unwrap();
        assert_eq!([ours[0], ours[1]].map(|nid| udsp.ni_priority(nid)), [4, 9]);
    }

    #[test]
    fn deletion_restores_what_the_other_rules_say() {
        let mut udsp = rules(&["src tcp priority 1", "src tcp* priority 2"]);
        assert_eq!(udsp.net_priority(Net::TCP), 1);
        udsp.del(Some(0)).unwrap();
        assert_eq!(udsp.net_priority(Net::TCP), 2);
        assert_eq!(udsp.del(Some(1)), Err(Errno::ENOENT));
        udsp.del(None).unwrap();
        assert_eq!(udsp.net_priority(Net::TCP), PRIORITY_LOWEST);
        assert_eq!(udsp.del(None), Ok(()), "nothing is left of nothing");
    }

    #[test]
    fn rules_are_inserted_where_they_are_told() {
        let mut udsp = rules(&["src tcp", "src tcp1"]);
        udsp.add(Some(1), rule("src tcp2")).unwrap();
        udsp.add(Some(99), rule("src tcp3")).unwrap();
        let order: Vec<String> =
            udsp.rules.iter().map(|rule| rule.src.as_ref().unwrap().to_string()).collect();
        assert_eq!(order, ["tcp", "tcp2", "tcp1", "tcp3"]);
    }

    #[test]
    fn a_rule_is_there_once_and_a_new_priority_updates_it() {
        let mut udsp = rules(&["src tcp priority 3", "src tcp1"]);
        assert_eq!(udsp.add(None, rule("src tcp priority 3")), Err(Errno::EALREADY));
        assert_eq!(udsp.add(Some(1), rule("src tcp priority 5")), Ok(()));
        assert_eq!(udsp.rules[0], rule("src tcp priority 5"));
        assert_eq!(udsp.add(None, rule("src tcp1 priority 0")), Err(Errno::EALREADY));
        assert_eq!(udsp.rules.len(), 2);
    }

    #[test]
    fn rules_without_effect_are_refused() {
        for text in [
            "",
            "priority 1",
            "rte 10.0.0.1@tcp",
            "src tcp rte 10.0.0.1@tcp",
            "src tcp dst tcp1 rte 10.0.0.1@tcp",
            "src 10.0.0.1@tcp dst 10.0.0.2@tcp priority 1",
            "dst 10.0.0.2@tcp rte 10.0.0.1@tcp priority 0",
        ] {
            assert_eq!(Udsp::default().add(None, rule(text)), Err(Errno::EINVAL), "{text}");
        }
    }
}
