//! Checks the origin of every byte. Bulk data has no bytes here: a segment refers to its source
//! memory, so the content of a buffer is a list of references.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::{BufferId, Span};
use fulmar_lnet::{Event, EventKind};

use super::ledger::{Ledger, MdKey};
use super::{Verdict, require};
use crate::options::Options;
use crate::signal::Signal;

const CHECKER: &str = "data";

/// The content of each buffer. A buffer always belongs to the same node.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    stored: BTreeMap<BufferId, BTreeMap<u64, Span>>,
    /// Buffers whose only MD is unlinked.
    retired: BTreeSet<BufferId>,
    /// PUTs of hostile hosts belong to no operation.
    hostile: bool,
}

impl Memory {
    pub(super) fn new(options: &Options) -> Self {
        Self { hostile: options.hostile.is_some(), ..Self::default() }
    }

    pub(super) fn observe(
        &mut self,
        ledger: &Ledger,
        incarnation: u32,
        signal: &Signal,
    ) -> Verdict {
        match signal {
            Signal::Stored { sink, source, .. } => self.store(*sink, *source),
            Signal::Event { host, event } => {
                let key = MdKey { host: *host, incarnation, md: event.md };
                let verdict = self.arrived(ledger, key, event);
                if let Some(record) = ledger.mds.get(&key).filter(|_| event.unlinked) {
                    self.retired.insert(record.made.buffer);
                }
                verdict
            }
            _ => Ok(()),
        }
    }

    fn store(&mut self, sink: Span, source: Span) -> Verdict {
        require(!self.retired.contains(&sink.buffer), CHECKER, || {
            format!("{sink:?} is written after its descriptor was unlinked")
        })?;
        if sink.len == 0 {
            return Ok(());
        }
        let runs = self.stored.entry(sink.buffer).or_default();
        // A segment that continues the run before it is merged, so that cutting adds no runs.
        if let Some((start, run)) = runs.range_mut(..sink.offset).next_back() {
            let follows = *start + u64::from(run.len) == sink.offset
                && run.buffer == source.buffer
                && run.offset + u64::from(run.len) == source.offset;
            if follows {
                run.len += source.len;
                return Ok(());
            }
        }
        runs.insert(sink.offset, source);
        Ok(())
    }

    /// Checks that a completed PUT or REPLY stored the right bytes in the right place.
    fn arrived(&self, ledger: &Ledger, key: MdKey, event: &Event) -> Verdict {
        if event.status.is_err() || event.mlength == 0 {
            return Ok(());
        }
        let Some(record) = ledger.mds.get(&key) else { return Ok(()) };
        let source = match event.kind {
            EventKind::Put => ledger
                .put_of(event.header_data)
                .map(|number| ledger.operations[number].local)
                .map(|local| (local.buffer, local.offset)),
            EventKind::Reply => {
                let operation = record.operation.map(|number| &ledger.operations[number]);
                if operation.is_some_and(|operation| !operation.honest) {
                    return Ok(());
                }
                operation.and_then(|operation| operation.remote)
            }
            _ => return Ok(()),
        };
        let Some((buffer, offset)) = source else {
            let unknown = event.kind == EventKind::Put && self.hostile;
            return require(unknown, CHECKER, || {
                format!("{key:?}: data without a source: {event:?}")
            });
        };
        let wanted = Span { buffer, offset, len: event.mlength };
        let at = record.made.offset + event.offset;
        let found = self.stored.get(&record.made.buffer).and_then(|runs| covering(runs, at));
        require(found.is_some_and(|found| begins_with(found, wanted)), CHECKER, || {
            format!("{key:?} at {at}: {wanted:?} was sent, {found:?} is stored: {event:?}")
        })
    }
}

/// Returns the contiguous data stored from `at` on.
fn covering(runs: &BTreeMap<u64, Span>, at: u64) -> Option<Span> {
    let (start, run) = runs.range(..=at).next_back()?;
    let skip = u32::try_from(at - start).ok().filter(|skip| *skip < run.len)?;
    Some(run.advance(skip))
}

fn begins_with(found: Span, wanted: Span) -> bool {
    found.buffer == wanted.buffer && found.offset == wanted.offset && found.len >= wanted.len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(buffer: u64, offset: u64, len: u32) -> Span {
        Span { buffer: BufferId(buffer), offset, len }
    }

    #[test]
    fn contiguous_pieces_of_a_message_are_merged() {
        let mut memory = Memory::default();
        memory.store(span(1, 100, 10), span(2, 0, 10)).unwrap();
        memory.store(span(1, 110, 5), span(2, 10, 5)).unwrap();
        memory.store(span(1, 115, 5), span(3, 0, 5)).unwrap();
        let runs = &memory.stored[&BufferId(1)];
        assert_eq!(covering(runs, 104), Some(span(2, 4, 11)));
        assert_eq!(covering(runs, 115), Some(span(3, 0, 5)));
        assert_eq!(covering(runs, 120), None);
    }

    #[test]
    fn a_write_into_unlinked_memory_is_found() {
        let mut memory = Memory::default();
        memory.retired.insert(BufferId(1));
        assert!(memory.store(span(1, 0, 1), span(2, 0, 1)).is_err());
    }
}
