//! Fault injection: the options that `lnetctl fault` and `lctl net_drop_add` share.
//! Spec: lnet-admin §14, §19.4.

use clap::Args;
use fulmar_control::api::{FaultAdd, FaultDel};
use fulmar_control::config::{FAULT_TYPES, FaultAction, FaultConf, HEALTH_ERRORS};
use fulmar_lnet_wire::{NidMatch, PORTALS};

/// Source and destination.
#[derive(Debug, Args)]
struct Between {
    /// Messages from this NID; "*@tcp" for a network, "*" for any
    #[arg(short, long, value_name = "NID")]
    source: Option<NidMatch>,
    /// Messages for this NID; "*@tcp" for a network, "*" for any
    #[arg(short, long, value_name = "NID")]
    dest: Option<NidMatch>,
}

/// Options of rules of both kinds.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    between: Between,
    /// Match one message of every N, at a random place among them
    #[arg(short, long, value_name = "N")]
    rate: Option<u32>,
    /// Match one message in every N seconds, at a random second
    #[arg(short, long, value_name = "SECONDS")]
    interval: Option<u32>,
    /// PUTs and GETs to this portal, 0 to 63; may be repeated
    #[arg(short, long = "portal", value_name = "N")]
    portals: Vec<String>,
    /// Messages of this type: PUT, ACK, GET, REPLY; may be repeated
    #[arg(short, long = "message", value_name = "TYPE")]
    messages: Vec<String>,
}

/// A rule that drops messages.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    #[command(flatten)]
    common: Common,
    /// Messages received at this NID of the node
    #[arg(short = 'o', long = "local_nid", alias = "local-nid", value_name = "NID")]
    local: Option<NidMatch>,
    /// Make sending fail with this error, such as local_timeout or random; may be repeated
    #[arg(short = 'e', long = "health_error", alias = "health-error", value_name = "NAME")]
    health_errors: Vec<String>,
    /// Drop each message with probability 1/2; needs an interval
    #[arg(short = 'n', long)]
    random: bool,
    /// Drop every message, and make every send fail
    #[arg(short = 'x', long = "drop_all", alias = "drop-all")]
    drop_all: bool,
}

/// A rule that delays messages.
#[derive(Debug, Args)]
pub(crate) struct DelayArgs {
    #[command(flatten)]
    common: Common,
    /// Delay of each message
    #[arg(short, long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    latency: u32,
}

/// Which rules to remove.
#[derive(Debug, Args)]
pub(crate) struct DelArgs {
    #[command(flatten)]
    between: Between,
    /// Remove all rules
    #[arg(short, long)]
    all: bool,
}

impl Between {
    fn both(&self, action: FaultAction) -> Result<(NidMatch, NidMatch), String> {
        match (self.source, self.dest) {
            (Some(source), Some(dest)) => Ok((source, dest)),
            _ => {
                let rule = action.name();
                Err(format!("Please provide both source and destination of {rule} rule"))
            }
        }
    }
}

impl Common {
    fn rule(&self, action: FaultAction, needs_turn: bool) -> Result<FaultConf, String> {
        let (source, target) = self.between.both(action)?;
        let (rate, interval) = (self.rate.unwrap_or(0), self.interval.unwrap_or(0));
        let turns = [rate, interval].iter().filter(|turn| **turn != 0).count();
        if turns > 1 || (turns == 0 && needs_turn) {
            let name = action.name();
            return Err(format!(
                "please provide either {name} rate or interval but not both at the same time."
            ));
        }
        let mut rule = FaultConf { rate, interval, ..FaultConf::new(action, source, target) };
        for text in &self.portals {
            let portal = text.parse().ok().filter(|portal: &u32| *portal < PORTALS);
            rule.portals |= 1 << portal.ok_or_else(|| format!("invalid portal: {text}"))?;
        }
        for text in &self.messages {
            let known = FAULT_TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            rule.types |= known.ok_or_else(|| format!("unknown message type {text}"))?.1;
        }
        Ok(rule)
    }
}

impl DropArgs {
    pub(crate) fn request(&self) -> Result<FaultAdd, String> {
        let mut rule = self.common.rule(FaultAction::Drop, !self.drop_all)?;
        if self.random && rule.interval == 0 {
            return Err("please provide an interval to randomize".into());
        }
        for text in &self.health_errors {
            let known = HEALTH_ERRORS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            rule.health_error |= known.ok_or_else(|| unknown_health_error(text))?.1;
        }
        rule.local = self.local.unwrap_or_default();
        rule.random = self.random;
        rule.drop_all = self.drop_all;
        Ok(FaultAdd { rule })
    }
}

impl DelayArgs {
    pub(crate) fn request(&self) -> Result<FaultAdd, String> {
        let mut rule = self.common.rule(FaultAction::Delay, true)?;
        if self.latency == 0 {
            return Err("latency cannot be zero".into());
        }
        rule.latency = self.latency;
        Ok(FaultAdd { rule })
    }
}

impl DelArgs {
    /// Returns whether no rule is selected.
    pub(crate) fn selects_none(&self) -> bool {
        !self.all && self.between.source.is_none() && self.between.dest.is_none()
    }

    pub(crate) fn request(&self, action: FaultAction) -> Result<FaultDel, String> {
        let any = (NidMatch::Any, NidMatch::Any);
        let (source, target) = if self.all { any } else { self.between.both(action)? };
        Ok(FaultDel { action, source, target })
    }
}

fn unknown_health_error(text: &str) -> String {
    let names: Vec<&str> = HEALTH_ERRORS.iter().map(|(name, _)| *name).collect();
    format!("unknown health error {text}: use one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn read<T: Args>(words: &str) -> T {
        let command = T::augment_args(Command::new("rule"));
        let words = std::iter::once("rule").chain(words.split_whitespace());
        T::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn options_become_a_rule() {
        let words = "-s 10.0.0.1@tcp -d *@tcp -r 100 -p 3 -p 12 -m PUT -m get -e local_timeout \
                     --health_error remote_error";
        let rule = read::<DropArgs>(words).request().unwrap().rule;
        let expected = FaultConf {
            portals: 1 << 3 | 1 << 12,
            types: 2 | 4,
            rate: 100,
            health_error: 0x40 | 0x80,
            ..FaultConf::new(
                FaultAction::Drop,
                "10.0.0.1@tcp".parse().unwrap(),
                "255.255.255.255@tcp".parse().unwrap(),
            )
        };
        assert_eq!(rule, expected);
        let rule = read::<DelayArgs>("-s * -d * -i 2 -l 5").request().unwrap().rule;
        let any = FaultConf::new(FaultAction::Delay, NidMatch::Any, NidMatch::Any);
        assert_eq!(rule, FaultConf { interval: 2, latency: 5, ..any });
        let rule = read::<DropArgs>("-s * -d * -x -o 10.0.0.1@tcp").request().unwrap().rule;
        assert!(rule.drop_all && rule.local == "10.0.0.1@tcp".parse().unwrap());
    }

    #[test]
    fn invalid_rules_are_refused_with_the_texts_of_lustre() {
        let either = "rate or interval but not both at the same time.";
        for (words, expected) in [
            ("-s * -r 1", "Please provide both source and destination of drop rule".to_owned()),
            ("-s * -d *", format!("please provide either drop {either}")),
            ("-s * -d * -r 1 -i 1", format!("please provide either drop {either}")),
            ("-s * -d * -x -r 1 -i 1", format!("please provide either drop {either}")),
            ("-s * -d * -r 1 -n", "please provide an interval to randomize".to_owned()),
            ("-s * -d * -r 1 -m PUSH", "unknown message type PUSH".to_owned()),
            ("-s * -d * -r 1 -p 64", "invalid portal: 64".to_owned()),
        ] {
            assert_eq!(read::<DropArgs>(words).request(), Err(expected), "{words}");
        }
        let expected = read::<DropArgs>("-s * -d * -r 1 -e slow").request().unwrap_err();
        assert!(expected.starts_with("unknown health error slow: use one of local_interrupt, "));
        for (words, expected) in [
            ("-s * -d * -l 1", format!("please provide either delay {either}")),
            ("-d * -r 1", "Please provide both source and destination of delay rule".to_owned()),
            ("-s * -d * -r 1", "latency cannot be zero".to_owned()),
        ] {
            assert_eq!(read::<DelayArgs>(words).request(), Err(expected), "{words}");
        }
    }

    #[test]
    fn removal_names_a_rule_or_all() {
        let request = |words| read::<DelArgs>(words).request(FaultAction::Delay);
        let any = (NidMatch::Any, NidMatch::Any);
        let all = request("-a").unwrap();
        assert_eq!((all.source, all.target), any);
        let one = request("-s *@tcp -d *").unwrap();
        assert_eq!(one.source.to_string(), "255.255.255.255@tcp");
        assert!(request("-s *@tcp").unwrap_err().ends_with("destination of delay rule"));
    }
}
