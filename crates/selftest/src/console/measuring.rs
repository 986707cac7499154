//! Gathering what a node tells slice by slice.

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{Histogram, Measured, Slice};

use super::api::Measures;

impl Measures {
    /// Takes the reply to a question for buckets from `asked` on, and returns from which to ask
    /// next, if there may be more.
    ///
    /// # Errors
    /// EPROTO if these buckets were not asked for.
    pub(super) fn take(&mut self, asked: u32, said: &Measured) -> Result<Option<u32>, Errno> {
        let Slice { first, counts } = said.slice;
        if first < asked {
            return Err(Errno::EPROTO);
        }
        self.told = true;
        self.rpcs = said.rpcs;
        self.bytes = said.bytes;
        self.min_ns = said.min_ns;
        self.max_ns = said.max_ns;
        self.cpu_ns = said.usage.cpu_ns;
        self.retransmits = said.usage.retransmits;
        self.window = said.usage.window;
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
