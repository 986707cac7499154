//! Collection of the measurements of a node in several replies.

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{Histogram, MeasureReply, Slice};

use super::api::Measures;

impl Measures {
    /// Handles the reply to a request for buckets from `asked` on; returns the first bucket of the
    /// next request, if any.
    ///
    /// # Errors
    /// EPROTO if these buckets were not requested.
    pub(super) fn take(&mut self, asked: u32, said: &MeasureReply) -> Result<Option<u32>, Errno> {
        let Slice { first, counts } = said.slice;
        if first < asked {
            return Err(Errno::EPROTO);
        }
        if asked == 0 {
            // All figures are those of the first reply, so that they belong to one point in time;
            // further replies may arrive much later.
            self.reported = true;
            self.rpcs = said.rpcs;
            self.bytes = said.bytes;
            self.min_ns = said.min_ns;
            self.max_ns = said.max_ns;
            self.cpu_ns = said.usage.cpu_ns;
            self.retransmits = said.usage.retransmits;
            self.window = said.usage.window;
        }
        let first = first as usize;
        if first >= Histogram::BUCKETS {
            return Ok(None);
        }
        self.buckets.resize(first, 0);
        self.buckets.extend(counts.iter().take(Histogram::BUCKETS - first));
        let end = self.buckets.len();
        let is_empty = |count: &u32| *count == 0;
        let used = end - self.buckets.iter().rev().take_while(|count| is_empty(count)).count();
        self.buckets.truncate(used);
        Ok((end < Histogram::BUCKETS).then_some(end as u32))
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::selftest::{SessionId, Usage};

    use super::*;

    #[test]
    fn later_replies_do_not_change_the_figures() {
        let said = |rpcs, first| MeasureReply {
            status: 0,
            session: SessionId::INVALID,
            rpcs,
            bytes: rpcs * 10,
            min_ns: 1,
            max_ns: rpcs,
            usage: Usage { cpu_ns: rpcs, ..Usage::default() },
            slice: Slice { first, counts: [1; Slice::LEN] },
        };
        let mut measures = Measures::default();
        let next = measures.take(0, &said(7, 0)).unwrap().unwrap();
        assert_eq!(next as usize, Slice::LEN);
        measures.take(next, &said(9, next)).unwrap();
        assert_eq!((measures.rpcs, measures.bytes, measures.cpu_ns), (7, 70, 7));
        assert_eq!(measures.buckets, vec![1; 2 * Slice::LEN]);
        assert_eq!(measures.take(next, &said(9, 0)), Err(Errno::EPROTO));
    }
}
