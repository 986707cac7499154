//! Forwarded messages. Checks invariants 18 and 19 of lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Header;
use fulmar_lnet_wire::header::HeaderForm;

use super::{Terms, Verdict, require};

/// Messages received for other nodes and not forwarded yet.
#[derive(Debug)]
pub struct Transits {
    terms: Terms,
    given: BTreeMap<Vec<u8>, u64>,
}

impl Transits {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, given: BTreeMap::new() }
    }

    pub(super) fn given(&mut self, header: &Header) {
        *self.given.entry(bytes(header)).or_default() += 1;
    }

    /// 18 and 19: only received messages are forwarded, each once and with its header unchanged. If
    /// an interface of the target is broken, another may be chosen.
    pub(super) fn forwarded_unchanged(&mut self, header: &Header) -> Verdict {
        let mut key = bytes(header);
        if !self.terms.calm && !self.given.contains_key(&key) {
            let alike = self.given.keys().find(|given| {
                let given = Header::decode(given, HeaderForm::Large);
                given.is_ok_and(|given| Header { target: header.target, ..given } == *header)
            });
            key = alike.cloned().unwrap_or(key);
        }
        let given = self.given.get_mut(&key);
        require(given.is_some(), 19, || {
            format!("forwards a message that was not received: {header:?}")
        })?;
        if let Some(count) = given {
            *count -= 1;
            if *count == 0 {
                self.given.remove(&key);
            }
        }
        Ok(())
    }
}

fn bytes(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(HeaderForm::Large, &mut bytes);
    bytes
}
