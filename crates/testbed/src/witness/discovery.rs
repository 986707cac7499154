//! Targets of messages, and the interfaces in ping info. Checks invariants 26 and 27 of
//! lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Payload;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Body, Handle, Header, Nid, PING_MATCH_BITS, RESERVED_PORTAL};

use super::{Directory, Terms, Verdict, require};

/// Which nodes are known.
#[derive(Debug)]
pub struct Discovery {
    terms: Terms,
    /// NIDs that were pinged, or that have pushed to this node.
    known: BTreeSet<Nid>,
    /// The interfaces reported with each sequence number.
    said: BTreeMap<u32, Vec<Nid>>,
    /// Pushes that were not acknowledged.
    pushed: BTreeSet<Handle>,
}

impl Discovery {
    pub(super) fn new(terms: Terms) -> Self {
        let (known, said, pushed) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Self { terms, known, said, pushed }
    }

    pub(super) fn received(&mut self, header: &Header) {
        match header.body {
            // A push has the same contents as the answer to a ping.
            Body::Put { portal: RESERVED_PORTAL, .. } => {
                self.known.insert(header.source);
            }
            Body::Ack { handle, .. } => {
                self.pushed.remove(&handle);
            }
            _ => {}
        }
    }

    /// 26: only pings and pushes are sent to an unknown node.
    pub(super) fn unknown_nodes_are_pinged_first(
        &mut self,
        header: &Header,
        directory: &dyn Directory,
    ) -> Verdict {
        match header.body {
            Body::Get { portal: RESERVED_PORTAL, match_bits: PING_MATCH_BITS, .. } => {
                self.known.insert(header.target);
            }
            Body::Put { portal: RESERVED_PORTAL, ack, .. } => {
                self.pushed.insert(ack);
            }
            Body::Get { .. } | Body::Put { .. } if self.terms.discovers => {
                let mut known = self.known.contains(&header.target);
                if !known {
                    // It may be known by another NID.
                    let all = directory.of_peer(header.target);
                    known = all.iter().any(|nid| self.known.contains(nid));
                    self.known.extend(known.then_some(header.target));
                }
                return require(known, 26, || {
                    format!("sent to a node that was never pinged: {header:?}")
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// 27: one sequence number always has the same interfaces. A small sink may truncate the list.
    pub(super) fn a_change_has_a_new_sequence(
        &mut self,
        header: &Header,
        payload: &Payload,
    ) -> Verdict {
        let (Body::Put { portal: RESERVED_PORTAL, .. } | Body::Reply { .. }) = header.body else {
            return Ok(());
        };
        let Payload::Inline(bytes) = payload else { return Ok(()) };
        let Ok(decoded) = PingInfo::decode(bytes) else { return Ok(()) };
        let number = decoded.info.sequence;
        let now: Vec<Nid> = decoded.info.entries.iter().map(|entry| entry.nid).collect();
        let newest = self.said.keys().next_back().is_none_or(|newest| number >= *newest);
        require(newest, 27, || format!("number {number} follows a higher one: {now:?}"))?;
        let before = self.said.entry(number).or_insert_with(|| now.clone());
        let common = before.len().min(now.len());
        let same = before[..common] == now[..common];
        require(same, 27, || format!("{now:?} has the number of {before:?}: {number}"))?;
        if now.len() > before.len() {
            *before = now;
        }
        Ok(())
    }

    /// 27: without failures, every push is acknowledged.
    pub(super) fn pushes_are_acknowledged(&self) -> Verdict {
        require(!self.terms.calm || self.pushed.is_empty(), 27, || {
            format!("unacknowledged pushes: {:?}", self.pushed)
        })
    }
}
