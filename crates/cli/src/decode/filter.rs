//! Which RPCs are shown.

use std::net::IpAddr;
use std::time::Duration;

use fulmar_base::quantity;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::format::Format;
use fulmar_trace::rpc::Rpc;

use super::names::{Names, fids_of};

/// Options that select RPCs. Each that is given must match.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Filter {
    /// Only RPCs of this node, as client or server: a NID or an IP address
    #[arg(long, value_name = "NID", value_parser = node)]
    node: Option<Node>,
    /// Only this operation: LDLM_ENQUEUE, or only ENQUEUE; or a kind of it, such as OPEN
    #[arg(long, value_name = "NAME", value_parser = operation)]
    opcode: Option<String>,
    /// Only RPCs about this file and its objects: its FID, or its name without directories
    #[arg(long, value_name = "FID|NAME")]
    file: Option<String>,
    /// Only RPCs that took longer, and those without reply
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    slower: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Nid(Nid),
    Ip(IpAddr),
}

impl Filter {
    /// Returns the check of one RPC.
    pub(super) fn checker<'a>(&'a self, names: &'a Names) -> impl Fn(&Rpc<'_>) -> bool + 'a {
        let fids = self.file.as_ref().map(|file| names.fids(file));
        move |rpc| {
            let has_node = self
                .node
                .is_none_or(|node| [rpc.client, rpc.server].into_iter().any(|nid| node.is(nid)));
            let has_name = self.opcode.as_ref().is_none_or(|name| {
                let format = rpc.request.message.format();
                let labels = [super::facts::label(&rpc.request.message), format.to_string()];
                labels.iter().any(|label| matches(label, name))
            });
            let has_file = fids
                .as_ref()
                .is_none_or(|fids| fids_of(names, rpc).iter().any(|fid| fids.contains(fid)));
            let is_slow =
                self.slower.is_none_or(|limit| rpc.latency().is_none_or(|latency| latency > limit));
            has_node && has_name && has_file && is_slow
        }
    }
}

impl Node {
    fn is(self, nid: Nid) -> bool {
        match self {
            Self::Nid(node) => node == nid,
            Self::Ip(ip) => nid.ip() == Some(ip),
        }
    }
}

fn node(text: &str) -> Result<Node, String> {
    if let Ok(ip) = text.parse() {
        return Ok(Node::Ip(ip));
    }
    text.parse().map(Node::Nid).map_err(|error| format!("{error}"))
}

fn operation(text: &str) -> Result<String, String> {
    let name = text.to_ascii_uppercase();
    let mut labels = Format::ALL.iter().map(ToString::to_string);
    let intents = ["LOOKUP", "OPEN|CREAT"].map(|ops| format!("LDLM_ENQUEUE {ops}"));
    if labels.any(|label| matches(&label, &name)) || intents.iter().any(|l| matches(l, &name)) {
        return Ok(name);
    }
    let similar: Vec<String> = Opcode::KNOWN
        .iter()
        .map(|opcode| format!("{opcode:?}"))
        .filter(|known| known.contains(&name) || name.contains(after_service(known)))
        .collect();
    let hint = if similar.is_empty() {
        "names are those of Lustre, such as OST_WRITE or LDLM_ENQUEUE".to_owned()
    } else {
        format!("did you mean {}?", similar.join(", "))
    };
    Err(format!("no operation has this name; {hint}"))
}

/// Returns whether an operation such as `LDLM_ENQUEUE OPEN|CREAT` has a name: all of it, or its words
/// with or without the service.
fn matches(label: &str, name: &str) -> bool {
    let label = label.to_ascii_uppercase();
    let (opcode, variant) = label.split_once(' ').unwrap_or((&label, ""));
    let is_variant = || variant == name || variant.split('|').any(|part| part == name);
    let short = after_service(&label);
    [label.as_str(), short, opcode, after_service(opcode)].contains(&name) || is_variant()
}

/// Returns `ENQUEUE` of `LDLM_ENQUEUE`.
fn after_service(opcode: &str) -> &str {
    opcode.split_once('_').map_or(opcode, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_several_names() {
        for name in ["LDLM_ENQUEUE", "ENQUEUE", "LDLM_ENQUEUE OPEN|CREAT", "OPEN", "OPEN|CREAT"] {
            assert!(matches("LDLM_ENQUEUE OPEN|CREAT", name), "{name}");
        }
        assert!(!matches("LDLM_ENQUEUE OPEN|CREAT", "GETATTR"));
        assert_eq!(operation("ost_write"), Ok("OST_WRITE".to_owned()));
        assert_eq!(operation("fid2path"), Ok("FID2PATH".to_owned()));
        let error = operation("writ").unwrap_err();
        assert_eq!(error, "no operation has this name; did you mean OST_WRITE?");
        assert!(operation("zzz").unwrap_err().contains("such as OST_WRITE"));
        assert!(node("10.0.0.1").is_ok() && node("10.0.0.1@tcp").is_ok() && node("a b").is_err());
    }
}
