//! Waiting packets, in reused buffers.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::Time;

use crate::packet::LONGEST;

/// Packets in the order of arrival, and delayed ones separately.
///
/// Chunks hold consecutive packets. A chunk is free when all its packets are removed; the chunk
/// that became free last is used next, since it is most likely in a cache.
#[derive(Debug)]
pub(crate) struct Store {
    chunks: VecDeque<Chunk>,
    free: Vec<Box<[u8]>>,
    packets: VecDeque<QueuedPacket>,
    /// Delayed packets by their time and their order.
    late: BTreeMap<(Time, u64), Late>,
    count: u64,
}

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    read: usize,
    filled: usize,
    packets: u32,
}

#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    due: Time,
    len: usize,
    segments: u32,
    line_bytes: u64,
}

#[derive(Debug)]
struct Late {
    bytes: Vec<u8>,
    segments: u32,
    line_bytes: u64,
}

/// The next packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next<'a> {
    pub(crate) due: Time,
    pub(crate) bytes: &'a [u8],
    pub(crate) segments: u32,
    /// Its length on the line.
    pub(crate) line_bytes: u64,
}

/// Large enough for many packets, and small enough for an idle link.
const CHUNK: usize = 1 << 20;
/// Packets are aligned to cache lines.
const ALIGNED: usize = 64;
/// Free chunks beyond this number are released.
const FREE_MAX: usize = 64;

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            free: Vec::new(),
            packets: VecDeque::new(),
            late: BTreeMap::new(),
            count: 0,
        }
    }

    /// Returns memory for the longest packet, which is stored by pushing it.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let fits = |chunk: &Chunk| chunk.bytes.len() - chunk.filled >= LONGEST;
        if !self.chunks.back().is_some_and(fits) {
            let bytes = self.free.pop().unwrap_or_else(|| vec![0; CHUNK].into());
            self.chunks.push_back(Chunk { bytes, read: 0, filled: 0, packets: 0 });
        }
        let chunk = self.chunks.back_mut().expect("it was created above");
        &mut chunk.bytes[chunk.filled..]
    }

    /// Stores the first `len` bytes of [`Store::space`] as a packet that arrives at `due`, but not
    /// before packets that were pushed earlier.
    pub(crate) fn push(&mut self, due: Time, len: usize, segments: u32, line_bytes: u64) {
        let chunk = self.chunks.back_mut().expect("the packet is in it");
        chunk.filled = (chunk.filled + len).next_multiple_of(ALIGNED).min(chunk.bytes.len());
        chunk.packets += 1;
        self.packets.push_back(QueuedPacket { due, len, segments, line_bytes });
    }

    /// Stores a packet that arrives at `due`, independent of others.
    pub(crate) fn push_late(&mut self, due: Time, bytes: Vec<u8>, segments: u32, line_bytes: u64) {
        self.count += 1;
        self.late.insert((due, self.count), Late { bytes, segments, line_bytes });
    }

    /// Returns the packet that arrives next.
    pub(crate) fn next(&self) -> Option<Next<'_>> {
        let late = self.late.first_key_value().map(|((due, _), late)| Next {
            due: *due,
            bytes: &late.bytes,
            segments: late.segments,
            line_bytes: late.line_bytes,
        });
        let first = self.packets.front().zip(self.chunks.front()).map(|(waiting, chunk)| Next {
            due: waiting.due,
            bytes: &chunk.bytes[chunk.read..chunk.read + waiting.len],
            segments: waiting.segments,
            line_bytes: waiting.line_bytes,
        });
        match (first, late) {
            (Some(first), Some(late)) => Some(if late.due < first.due { late } else { first }),
            (first, late) => first.or(late),
        }
    }

    /// Removes the packet that arrives next.
    pub(crate) fn pop(&mut self) {
        let first = self.packets.front().map(|waiting| waiting.due);
        let late = self.late.first_key_value().map(|((due, _), _)| *due);
        if late.is_some_and(|late| first.is_none_or(|first| late < first)) {
            self.late.pop_first();
            return;
        }
        let Some(waiting) = self.packets.pop_front() else { return };
        let only = self.chunks.len() == 1;
        let chunk = self.chunks.front_mut().expect("the packet was in it");
        chunk.read = (chunk.read + waiting.len).next_multiple_of(ALIGNED).min(chunk.bytes.len());
        chunk.packets -= 1;
        match chunk.packets {
            0 if only => (chunk.read, chunk.filled) = (0, 0),
            0 => self.recycle(),
            _ => {}
        }
    }

    fn recycle(&mut self) {
        let chunk = self.chunks.pop_front();
        if self.free.len() < FREE_MAX {
            self.free.extend(chunk.map(|chunk| chunk.bytes));
        }
    }

    /// Returns how many bytes of memory it holds.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let late: usize = self.late.values().map(|late| late.bytes.capacity()).sum();
        (self.chunks.len() + self.free.len()) * CHUNK + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(store: &mut Store, due: u64, byte: u8, len: usize) {
        store.space()[..len].fill(byte);
        store.push(Time(due), len, 1, len as u64);
    }

    fn pop(store: &mut Store) -> Option<(u64, u8, usize)> {
        let next = store.next()?;
        assert!(next.bytes.iter().all(|byte| *byte == next.bytes[0]));
        let found = (next.due.0, next.bytes[0], next.bytes.len());
        store.pop();
        Some(found)
    }

    #[test]
    fn packets_are_returned_unchanged_and_in_order() {
        let mut store = Store::new();
        for round in 0..50 {
            // Packets of different lengths, more than a chunk holds.
            for n in 0..100 {
                push(&mut store, n, n as u8, 1 + (n as usize * 677 + round * 131) % LONGEST);
            }
            for n in 0..100 {
                let len = 1 + (n as usize * 677 + round * 131) % LONGEST;
                assert_eq!(pop(&mut store), Some((n, n as u8, len)));
            }
            assert_eq!(pop(&mut store), None);
        }
    }

    #[test]
    fn a_delayed_packet_does_not_delay_others() {
        let mut store = Store::new();
        store.push_late(Time(7), vec![9; 3], 1, 3);
        push(&mut store, 5, 1, 10);
        push(&mut store, 6, 2, 10);
        push(&mut store, 8, 3, 10);
        let order: Vec<u8> = std::iter::from_fn(|| pop(&mut store)).map(|found| found.1).collect();
        assert_eq!(order, [1, 2, 9, 3]);
    }

    #[test]
    fn memory_is_that_of_the_waiting_packets() {
        let mut store = Store::new();
        for n in 0..10_000_u64 {
            push(&mut store, n, 1, 60_000);
            if n >= 100 {
                pop(&mut store);
            }
        }
        assert!(store.memory() <= 9 * CHUNK, "{} chunks for 6 MB", store.memory() / CHUNK);
        let mut idle = Store::new();
        for n in 0..10_000 {
            push(&mut idle, n, 1, 60_000);
            pop(&mut idle);
        }
        assert_eq!(idle.memory(), CHUNK);
    }
}
