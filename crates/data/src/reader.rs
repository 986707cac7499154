//! What an open file will be asked for next: streams of reads, and how far to read ahead of each.
//!
//! * A read belongs to a stream if it begins within a *band* around the end of it: the kernel's own read-ahead
//!   comes out of order. A stream is sequential if its reads cover at least a quarter of what it has passed, so
//!   random reads in a small file are none.
//! * Reads at equal distances that are not sequential are *strided*.
//! * A window begins small at the start of a file unless the first read is a long one, then as large as the last one on this mount.
//!   It is four times as large when the reader had to wait for something that was requested after it had grown last, and is
//!   refilled when half of it is used. A small file is read as a whole.
//! * When memory is refused, or data that were read ahead are gone before they were used, it is halved.

use std::ops::Range;

/// What limits reading ahead, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How far around the end of a stream a read may begin.
    pub band: u64,
    /// The smallest window, and the largest file that is read as a whole: one RPC.
    pub least: u64,
    /// The window of a stream that is known to be sequential.
    pub first: u64,
    /// The largest window: twice what may be in flight.
    pub most: u64,
}

/// The streams of an open file.
#[derive(Debug, Default)]
pub struct Reader {
    streams: Vec<Stream>,
    /// The last read and its distance from the one before.
    last: Option<(Range<u64>, u64)>,
    stride: Option<Stride>,
    clock: u64,
}

/// Reads that follow one another.
#[derive(Clone, Debug)]
struct Stream {
    start: u64,
    /// The end of what was read.
    next: u64,
    /// How much was read.
    bytes: u64,
    /// How many reads continued it.
    hits: u32,
    window: u64,
    /// The range that was requested, as far as it was not there.
    base: u64,
    issued: u64,
    /// A wait for what is behind this shows that the window is too small.
    grown_to: u64,
    used: u64,
}

/// Reads of one length at equal distances.
#[derive(Clone, Debug)]
struct Stride {
    distance: u64,
    window: u64,
    /// The start of the next read to be requested.
    next: u64,
}

/// What a read belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Random,
    /// A sequential stream.
    Sequential(usize),
    /// Reads at equal distances.
    Strided,
}

/// What is read ahead of the first read, if that is at the start of a file: it may only look at its head.
const HEAD: u64 = 1 << 20;
/// Whose first read is so long reads all of the file, most likely: programs that look at the head read less.
const LONG: u64 = 256 << 10;
/// A window grows by this. On a long path each step costs a round trip.
const GROWTH: u64 = 4;
/// The most streams of an open file. The one that is unused for longest gives way.
const STREAMS: usize = 4;

impl Reader {
    /// Handles a read, and says what it belongs to. `range` is not empty.
    pub fn read(&mut self, range: &Range<u64>, limits: &Limits) -> Kind {
        self.clock += 1;
        let before = self.last.take();
        let distance =
            before.as_ref().map_or(0, |(last, _)| range.start.saturating_sub(last.start));
        self.last = Some((range.clone(), distance));
        let at = self.stream_of(range, limits.band);
        let stream = &mut self.streams[at];
        stream.used = self.clock;
        stream.bytes += range.end - range.start;
        stream.start = stream.start.min(range.start);
        stream.next = stream.next.max(range.end);
        stream.hits += 1;
        if stream.bytes < (stream.next - stream.start) / 4 {
            // What was requested ahead is not forgotten: it is not requested again.
            let hits = u32::from(range.start == 0);
            let Range { start, end } = *range;
            if stream.issued < start {
                (stream.base, stream.issued) = (start, start);
            }
            *stream = Stream { start, next: end, bytes: end - start, hits, window: 0, ..*stream };
        }
        if stream.hits > 1 {
            self.stride = None;
            return Kind::Sequential(at);
        }
        let same_len = |last: &Range<u64>| last.end - last.start == range.end - range.start;
        let is_strided = before
            .is_some_and(|(last, other)| distance > 0 && distance == other && same_len(&last));
        if is_strided {
            Kind::Strided
        } else {
            self.stride = None;
            Kind::Random
        }
    }

    /// Returns the stream that a read continues, or a new one.
    fn stream_of(&mut self, range: &Range<u64>, band: u64) -> usize {
        let off = |stream: &Stream| stream.next.abs_diff(range.start);
        let near = self.streams.iter().enumerate().filter(|(_, stream)| off(stream) <= band);
        if let Some((at, _)) = near.min_by_key(|(_, stream)| off(stream)) {
            return at;
        }
        let (start, used) = (range.start, self.clock);
        let new = Stream {
            start,
            next: start,
            bytes: 0,
            // Who begins at the start of a file goes on, most likely.
            hits: u32::from(start == 0),
            window: 0,
            base: start,
            issued: start,
            grown_to: 0,
            used,
        };
        if self.streams.len() < STREAMS {
            self.streams.push(new);
            return self.streams.len() - 1;
        }
        let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.used);
        let at = oldest.map_or(0, |(at, _)| at);
        self.streams[at] = new;
        at
    }

    /// A read of a stream has to wait. `lost`: for data that were read ahead and are gone.
    /// Returns the window.
    pub fn waited(&mut self, kind: Kind, range: &Range<u64>, lost: bool, limits: &Limits) -> u64 {
        let window = match kind {
            Kind::Random => return 0,
            Kind::Strided => {
                let Some(stride) = &mut self.stride else { return 0 };
                &mut stride.window
            }
            Kind::Sequential(at) => {
                let stream = &mut self.streams[at];
                if lost && (stream.base..stream.issued).contains(&range.start) {
                    stream.window = (stream.window / 2).max(limits.least);
                    (stream.base, stream.issued) = (range.start, range.start);
                    return stream.window;
                }
                if stream.window == 0 || range.end <= stream.grown_to {
                    return stream.window;
                }
                let most = limits.most.max(limits.least);
                stream.window = stream.window.saturating_mul(GROWTH).min(most);
                // All of the new window is requested now, and cannot be there before a round trip.
                stream.grown_to = stream.issued.max(stream.next.saturating_add(stream.window));
                return stream.window;
            }
        };
        *window = window.saturating_mul(GROWTH).min(limits.most.max(limits.least));
        *window
    }

    /// Returns what is to be read ahead after a read of a file of this size, in order. What of it is requested
    /// is reported by [`Reader::issued`]. `first`: whether nothing was read of the file before.
    pub fn ahead(&mut self, kind: Kind, size: u64, limits: &Limits) -> Vec<Range<u64>> {
        match kind {
            Kind::Random => Vec::new(),
            Kind::Sequential(at) => {
                let stream = &mut self.streams[at];
                let most = limits.most.max(limits.least);
                if stream.window == 0 {
                    let is_long = stream.next - stream.start >= LONG;
                    let is_sure = stream.hits > 2 || stream.start > 0 || is_long;
                    let first = if is_sure { limits.first } else { HEAD };
                    stream.window = first.min(most);
                } else if stream.hits == 3 && stream.start == 0 {
                    // The second read: it did not only look at the head of the file.
                    stream.window = stream.window.max(limits.first.min(most));
                }
                if size <= limits.least {
                    let whole = stream.issued..size;
                    return if whole.is_empty() { Vec::new() } else { vec![whole] };
                }
                let from = stream.issued;
                if from.saturating_sub(stream.next) > stream.window / 2 {
                    return Vec::new();
                }
                // RPCs are whole ones, except the last.
                let end = stream.next.saturating_add(stream.window);
                let aligned = end / limits.least * limits.least;
                let end = if aligned > from { aligned } else { end };
                let range = from..end.min(size);
                if range.is_empty() { Vec::new() } else { vec![range] }
            }
            Kind::Strided => self.strided(size, limits),
        }
    }

    fn strided(&mut self, size: u64, limits: &Limits) -> Vec<Range<u64>> {
        let Some((last, distance)) = self.last.clone() else { return Vec::new() };
        let len = last.end - last.start;
        let next = last.start.saturating_add(distance);
        let new = Stride { distance, window: limits.least, next };
        let stride = self.stride.get_or_insert(new);
        if stride.distance != distance {
            *stride = Stride { distance, window: limits.least, next };
        }
        stride.next = stride.next.max(next);
        // The window counts what is read, not what is between.
        let ahead = (stride.next - next) / distance * len;
        let mut room = if ahead > stride.window / 2 { 0 } else { stride.window - ahead };
        let (mut at, mut ranges) = (stride.next, Vec::new());
        while room > 0 && at < size && ranges.len() < 256 {
            ranges.push(at..at.saturating_add(len).min(size));
            room = room.saturating_sub(len);
            at = at.saturating_add(distance);
        }
        ranges
    }

    /// What is in front of `end` is requested.
    pub fn issued(&mut self, kind: Kind, end: u64) {
        match (kind, &mut self.stride) {
            (Kind::Sequential(at), _) => {
                let stream = &mut self.streams[at];
                stream.issued = stream.issued.max(end);
            }
            (Kind::Strided, Some(stride)) => {
                let steps = end.saturating_sub(stride.next).div_ceil(stride.distance);
                stride.next = stride.next.saturating_add(steps * stride.distance);
            }
            _ => {}
        }
    }

    /// There is no memory to read ahead.
    pub fn refused(&mut self, kind: Kind, limits: &Limits) {
        match (kind, &mut self.stride) {
            (Kind::Sequential(at), _) => {
                let window = &mut self.streams[at].window;
                *window = (*window / 2).max(limits.least);
            }
            (Kind::Strided, Some(stride)) => stride.window = (stride.window / 2).max(limits.least),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use fulmar_base::Rng;

    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const LIMITS: Limits =
        Limits { band: 8 * MIB, least: 4 * MIB, first: 16 * MIB, most: 128 * MIB };

    /// Reads, and returns what is read ahead.
    fn read(reader: &mut Reader, start: u64, len: u64, waits: bool) -> Vec<Range<u64>> {
        let range = start..start + len;
        let kind = reader.read(&range, &LIMITS);
        if waits {
            reader.waited(kind, &range, false, &LIMITS);
        }
        let ahead = reader.ahead(kind, 1 << 40, &LIMITS);
        if let Some(last) = ahead.last() {
            reader.issued(kind, last.end);
        }
        ahead
    }

    #[test]
    fn a_reader_from_the_start_gets_a_little_and_then_a_window() {
        let mut reader = Reader::default();
        assert_eq!(read(&mut reader, 0, 128 * KIB, true), from_ref(&(0..MIB + 128 * KIB)));
        assert_eq!(
            read(&mut reader, 128 * KIB, 128 * KIB, false),
            from_ref(&(MIB + 128 * KIB..16 * MIB))
        );
        assert_eq!(read(&mut reader, 256 * KIB, 128 * KIB, false), []);
    }

    #[test]
    fn a_long_first_read_gets_a_window_at_once() {
        let mut reader = Reader::default();
        assert_eq!(read(&mut reader, 0, LONG, true), from_ref(&(0..16 * MIB)));
        assert_eq!(read(&mut reader, LONG, LONG, false), []);
    }

    #[test]
    fn a_window_is_refilled_at_half_and_grows_only_when_the_reader_waits() {
        let mut reader = Reader::default();
        let (mut at, mut ahead, mut refills) = (0, 0, Vec::new());
        while at < 400 * MIB {
            let waits = at >= ahead;
            for range in read(&mut reader, at, MIB, waits) {
                ahead = range.end;
                refills.push(ahead - at);
            }
            at += MIB;
        }
        // No read waited after the first one: what is ahead stays within the window.
        assert!(refills.iter().all(|&len| len <= 17 * MIB), "{refills:?}");
        assert!(refills[3..].iter().all(|&len| len >= 12 * MIB), "{refills:?}");
        let window = |reader: &Reader| reader.streams[0].window;
        let before = window(&reader);
        let wait = |reader: &mut Reader, start: u64| {
            reader.waited(Kind::Sequential(0), &(start..start + MIB), false, &LIMITS)
        };
        // A wait makes it grow, another one for what is requested then does not.
        assert_eq!(wait(&mut reader, ahead), GROWTH * before);
        assert_eq!(wait(&mut reader, ahead + MIB), GROWTH * before);
        assert_eq!(wait(&mut reader, ahead + GROWTH * before), 128 * MIB);
        for step in 0..9 {
            wait(&mut reader, (step + 1) * 1000 * MIB);
        }
        assert_eq!(window(&reader), 128 * MIB);
    }

    #[test]
    fn disorder_within_the_band_is_sequential_and_random_reads_are_not() {
        let mut reader = Reader::default();
        let mut sequential = 0;
        for group in 0..100 {
            for part in [2, 0, 3, 1] {
                let start = 64 * MIB + (group * 4 + part) * 128 * KIB;
                let kind = reader.read(&(start..start + 128 * KIB), &LIMITS);
                sequential += u32::from(matches!(kind, Kind::Sequential(_)));
            }
        }
        assert!(sequential > 390, "{sequential}");
        let (mut reader, mut rng, mut ahead) = (Reader::default(), Rng::new(1), 0);
        for _ in 0..1000 {
            ahead += read(&mut reader, rng.below(1 << 30) & !4095, 4096, true).len();
        }
        assert_eq!(ahead, 0);
    }

    #[test]
    fn several_streams_do_not_disturb_one_another() {
        let mut reader = Reader::default();
        let mut ahead = [0; 4];
        for step in 0..64 {
            for (stream, ahead) in ahead.iter_mut().enumerate() {
                let start = (stream as u64 + 1) * 1000 * MIB + step * MIB;
                for range in read(&mut reader, start, MIB, false) {
                    assert!(range.end > start);
                    *ahead += range.end - range.start;
                }
            }
        }
        assert!(ahead.iter().all(|&len| (64 * MIB..=88 * MIB).contains(&len)), "{ahead:?}");
    }

    #[test]
    fn equal_distances_are_followed() {
        let (mut reader, mut ahead) = (Reader::default(), Vec::new());
        for step in 1..21 {
            ahead.extend(read(&mut reader, step * 50 * MIB, MIB, false));
        }
        let starts: Vec<u64> = ahead.iter().map(|range| range.start / MIB).collect();
        let expected: Vec<u64> = (4..starts.len() as u64 + 4).map(|step| step * 50).collect();
        assert_eq!(starts, expected, "each is requested once");
        assert!(starts.len() >= 18 && ahead.iter().all(|range| range.end - range.start == MIB));
        assert_eq!(read(&mut reader, 7, MIB, false), []);
    }

    #[test]
    fn a_small_file_is_read_as_a_whole_and_refused_memory_halves_the_window() {
        let mut reader = Reader::default();
        let kind = reader.read(&(0..4096), &LIMITS);
        assert_eq!(reader.ahead(kind, MIB, &LIMITS), from_ref(&(0..MIB)));
        let mut reader = Reader::default();
        read(&mut reader, 0, MIB, true);
        read(&mut reader, MIB, MIB, true);
        reader.refused(Kind::Sequential(0), &LIMITS);
        assert_eq!(reader.streams[0].window, 32 * MIB);
        reader.waited(Kind::Sequential(0), &(2 * MIB..3 * MIB), true, &LIMITS);
        assert_eq!(reader.streams[0].window, 16 * MIB);
    }
}
