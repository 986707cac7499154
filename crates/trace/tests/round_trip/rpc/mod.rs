//! Every request, reply and structured data of Lustre in the captures decodes to typed values, and
//! encodes to the same bytes. Spec: ptlrpc-ldlm-mgs §39.

mod counts;
mod plain;
mod typed;

use fulmar_trace::rpc::Calls;

use crate::traces::{Link, load};

/// The traces with RPCs.
const NAMES: [&str; 9] =
    ["mount", "mount-fresh", "meta", "data", "contend", "recovery", "ost-join", "lfs-df", "served"];

/// Calls `check` with the RPCs of a trace.
fn with_calls<T>(name: &str, check: impl FnOnce(Calls<'_>) -> T) -> T {
    let links: Vec<Link> = load(name);
    check(Calls::of(links.iter().flat_map(|link| &link.items)))
}
