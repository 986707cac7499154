//! `ping`, `discover` and `cpt-of-nid`. Spec: lnet-admin §11, §15.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

use super::error::ErrorObject;
use super::model::{Answer, Reply};
use super::peer::block;
use crate::value::{Dialect, Family, Map, MapExt, Quotes, Report, Value};

/// The output of pings or discoveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The answered ones, for standard output.
    pub answered: Report,
    /// The unanswered ones, for standard output after the others. In the older dialect, for
    /// standard error.
    pub failed: Report,
}

/// Prints the results of `what`, which is `ping` or `discover`.
pub fn answers(what: &str, answers: &[Answer], dialect: Dialect) -> Answers {
    let replies = answers.iter().filter_map(|answer| answer.result.as_ref().ok());
    let answered = block(what, replies.map(|r| reply(r, dialect)));
    let failures = answers.iter().filter_map(|answer| {
        let errno = *answer.result.as_ref().err()?;
        let descr = format!("failed to {what} {}: {}", answer.nid, Errno(errno));
        Some(ErrorObject {
            op: "manage".into(),
            object: what.into(),
            errno: -errno,
            descr,
            hint: None,
        })
    });
    let failed: Vec<Map> = failures.map(|error| failure(error, dialect)).collect();
    Answers {
        answered: Report::one(Family::Query, answered),
        failed: Report::one(Family::Query, block("manage", failed.into_iter())),
    }
}

/// Prints the CPU partitions that serve NIDs. This node has one for all. Spec: lnet-admin §15.
pub fn cpt_of_nid(nids: &[Nid]) -> Report {
    let entries = nids.iter().map(|nid| {
        let mut map = Map::new();
        map.put("nid", *nid);
        map.put("cpt", 0);
        map
    });
    Report::one(Family::Query, block("cpt-of-nid", entries))
}

fn reply(reply: &Reply, dialect: Dialect) -> Map {
    let mut map = Map::new();
    map.put("primary nid", reply.primary);
    map.put("Multi-Rail", reply.multi_rail);
    let nids = reply.nids.iter().map(|nid| vec![("nid".into(), (*nid).into())]);
    let key = match dialect {
        Dialect::Netlink => "peer_ni",
        Dialect::Cyaml => "peer ni",
    };
    map.put(key, Value::from_iter(nids));
    map
}

fn failure(error: ErrorObject, dialect: Dialect) -> Map {
    let mut numbers = Map::new();
    numbers.put("errno", error.errno);
    match dialect {
        Dialect::Netlink => {
            numbers.put("descr", Value::Described(Quotes::TaggedSingle, error.descr));
            [(error.object, Value::Empty)].into_iter().chain(numbers).collect()
        }
        Dialect::Cyaml => {
            numbers.put("descr", Value::Described(Quotes::Double, error.descr));
            vec![(error.object, numbers.into())]
        }
    }
}
