//! The state and the counters of a connection as text, in the forms of a kernel's client.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fulmar_data::TargetView;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_rpc::import::{Import, State, Stats};
use fulmar_rpc::stats::Histogram;

use super::operations::Op;
use super::tunables::PAGE;

/// When something is shown, and when its counters began, since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    pub(crate) begun: Duration,
}

impl Moment {
    /// Returns it with another beginning, if there is one.
    pub(crate) fn since(self, begun: Option<Duration>) -> Self {
        Self { begun: begun.unwrap_or(self.begun), ..self }
    }

    fn text(self, width: usize, colon: &str) -> String {
        let Self { now, begun } = self;
        let mut out = String::new();
        let times = [
            ("snapshot_time", now),
            ("start_time", begun),
            ("elapsed_time", now.saturating_sub(begun)),
        ];
        for (name, time) in times {
            let (name, secs, nanos) =
                (format!("{name}{colon}"), time.as_secs(), time.subsec_nanos());
            let _ = writeln!(out, "{name:width$} {secs}.{nanos:09} secs.nsecs");
        }
        out
    }
}

/// Returns the memory of data, in MiB: how many files have some, and how much there is.
pub(crate) fn cached(files: usize, memory: u64, used: u64) -> String {
    let (most, used) = (memory >> 20, used.div_ceil(1 << 20));
    let unused = most.saturating_sub(used);
    format!(
        "users: {files}\nmax_cached_mb: {most}\nused_mb: {used}\nunused_mb: {unused}\n\
         reclaim_count: 0\n"
    )
}

/// Returns the line of a counter, if there is something.
fn line(name: &str, unit: &str, of: &Histogram) -> String {
    let Histogram { count, min, max, sum, sum_squares, .. } = of;
    match count {
        0 => String::new(),
        _ => format!("{name:35} {count} samples [{unit}] {min} {max} {sum} {sum_squares}\n"),
    }
}

/// Returns the counters of what users do.
pub(crate) fn operations(counts: &BTreeMap<Op, Histogram>, moment: Moment) -> String {
    let lines = counts.iter().map(|(op, of)| line(op.name(), op.unit(), of));
    moment.text(35, "") + &lines.collect::<String>()
}

/// Returns how many pages were found and missed by reads.
pub(crate) fn pages_read(hits: u64, misses: u64, moment: Moment) -> String {
    let mut out = moment.text(35, "");
    for (name, count) in [("hits", hits), ("misses", misses)].into_iter().filter(|one| one.1 > 0) {
        let _ = writeln!(out, "{name:35} {count} samples [pages]");
    }
    out
}

/// Returns the counters of a connection: its waits, and each operation.
pub(crate) fn stats(stats: &Stats, moment: Moment) -> String {
    let mut out = moment.text(35, "");
    out += &line("req_waittime", "usecs", &waits(stats));
    out += &line("req_active", "reqs", &stats.in_flight);
    out += &line("read_bytes", "bytes", &stats.reads.bytes);
    out += &line("write_bytes", "bytes", &stats.writes.bytes);
    for (opcode, times) in &stats.operations {
        let name = opcode.name().map_or_else(|| opcode.0.to_string(), str::to_lowercase);
        out += &line(&name, "usecs", times);
    }
    out
}

/// Returns how long all requests took.
fn waits(stats: &Stats) -> Histogram {
    let mut all = Histogram::default();
    stats.operations.values().for_each(|one| all.merge(one));
    all
}

/// Returns how reads and writes are distributed, without those before. A row counts from its number up to that of the
/// next.
pub(crate) fn rpcs(
    (stats, before): (&Stats, Option<&Stats>),
    view: &TargetView,
    moment: Moment,
) -> String {
    let mut out = moment.text(25, ":");
    let (reads, writes) = (view.reads.in_flight, view.writes.in_flight);
    let _ = write!(
        out,
        "read RPCs in flight:  {reads}\nwrite RPCs in flight: {writes}\nDIO RPCs in flight: 0\n\
         pending write pages:  {}\npending read pages:   0\n",
        view.dirty.div_ceil(PAGE)
    );
    let of = |distributions: &dyn Fn(&Stats) -> [Buckets; 2]| {
        let (mut now, before) = (distributions(stats), before.map(distributions));
        for (now, before) in now.iter_mut().flatten().zip(before.iter().flatten().flatten()) {
            *now = now.saturating_sub(*before);
        }
        now
    };
    let bytes = of(&|stats| [pages(&stats.reads.bytes), pages(&stats.writes.bytes)]);
    table(&mut out, "pages per rpc         rpcs", &bytes, 1);
    let in_flight =
        of(&|stats| [stats.reads.in_flight, stats.writes.in_flight].map(|one| one.buckets));
    table(&mut out, "rpcs in flight        rpcs", &in_flight, 1);
    let latency = of(&|stats| {
        let times = |opcode| stats.operations.get(&opcode).copied().unwrap_or_default();
        [times(Opcode::OST_READ), times(Opcode::OST_WRITE)].map(|one| one.buckets)
    });
    table(&mut out, "RPC latency (us)       count", &latency, 0);
    out
}

type Buckets = [u64; Histogram::BUCKETS];

/// Returns the distribution of pages for that of bytes.
fn pages(bytes: &Histogram) -> Buckets {
    let (mut pages, page) = ([0; Histogram::BUCKETS], PAGE.ilog2() as usize);
    for (bucket, count) in bytes.buckets.iter().enumerate() {
        pages[bucket.saturating_sub(page).max(1)] += count;
    }
    pages
}

/// Appends a table from this bucket on.
fn table(out: &mut String, title: &str, [reads, writes]: &[Buckets; 2], first: usize) {
    let unit = title.rsplit(' ').next().unwrap_or_default();
    let _ = write!(out, "\n\t\t\tread\t\t\twrite\n{title}   % cum % |{:>11}   % cum %\n", unit);
    let (all_reads, all_writes) = (reads.iter().sum::<u64>(), writes.iter().sum::<u64>());
    let percent = |part: u64, all: u64| (part * 100).checked_div(all).unwrap_or(0);
    let (mut read, mut written) = (0, 0);
    for bucket in first..Histogram::BUCKETS {
        let (r, w) = (reads[bucket], writes[bucket]);
        (read, written) = (read + r, written + w);
        let from = if bucket == 0 { 0 } else { 1_u64 << (bucket - 1) };
        let _ = writeln!(
            out,
            "{from}:\t\t{r:10} {:3} {:3}   | {w:10} {:3} {:3}",
            percent(r, all_reads),
            percent(read, all_reads),
            percent(w, all_writes),
            percent(written, all_writes)
        );
        if (read, written) == (all_reads, all_writes) {
            return;
        }
    }
}

/// A connection to a target.
pub(crate) struct Connection<'a> {
    pub(crate) device: &'a str,
    pub(crate) import: &'a Import,
    /// Its data, if it has some.
    pub(crate) view: Option<&'a TargetView>,
}

impl Connection<'_> {
    /// Returns what a kernel's client has in `import`, as far as it is known.
    pub(crate) fn text(&self) -> String {
        let (target, granted) = (self.import.target(), self.import.granted());
        let mut out = format!(
            "import:\n    name: {}\n    target: {}\n    state: {}\n    connect_flags: [ {} ]\n    \
             connect_data:\n       flags: {:#x}\n       instance: {}\n       target_version: {}\n",
            self.device,
            target.uuid,
            state(self.import.state()),
            flags(granted.flags, granted.flags2).join(", "),
            granted.flags.0,
            granted.instance,
            granted.version,
        );
        self.agreed(&mut out);
        let nids: Vec<String> = target.nids.iter().map(|nid| format!("\"{nid}\"")).collect();
        let _ = write!(
            out,
            "    connection:\n       failover_nids: [ {} ]\n       current_connection: \"{}\"\n    \
             rpcs:\n",
            nids.join(", "),
            self.import.nid()
        );
        if let Some(view) = self.view {
            let in_flight = view.reads.in_flight + view.writes.in_flight;
            let _ = writeln!(out, "       inflight: {in_flight}");
        }
        let stats = self.import.stats();
        let _ = writeln!(out, "       avg_waittime: {} usecs", mean(&waits(&stats)));
        for (name, opcode, bytes) in [
            ("read", Opcode::OST_READ, &stats.reads.bytes),
            ("write", Opcode::OST_WRITE, &stats.writes.bytes),
        ] {
            let usecs = stats.operations.get(&opcode).map_or(0, mean);
            averages(&mut out, name, mean(bytes), usecs);
        }
        out
    }

    /// Appends what client and target have agreed on.
    fn agreed(&self, out: &mut String) {
        let granted = self.import.granted();
        let has = |flag| granted.flags.has(flag);
        let power = |bits: u8| 1_u64.checked_shl(bits.into()).unwrap_or(0);
        let block = power(granted.grant_block_bits);
        let fields = [
            (ConnectFlags::GRANT, "initial_grant", u64::from(granted.grant)),
            (ConnectFlags::BRW_SIZE, "max_brw_size", granted.brw_size.into()),
            (ConnectFlags::GRANT_PARAM, "grant_block_size", block),
            (ConnectFlags::GRANT_PARAM, "grant_inode_size", power(granted.grant_inode_bits)),
            (
                ConnectFlags::GRANT_PARAM,
                "grant_max_extent_size",
                block.saturating_mul(granted.grant_blocks_max.into()),
            ),
            (ConnectFlags::GRANT_PARAM, "grant_extent_tax", u64::from(granted.grant_tax_kib) << 10),
        ];
        for (_, name, value) in fields.into_iter().filter(|(flag, _, _)| has(*flag)) {
            let _ = writeln!(out, "       {name}: {value}");
        }
        if has(ConnectFlags::CKSUM) {
            let _ = writeln!(out, "       cksum_types: {:#x}", granted.checksums.0);
        }
        if has(ConnectFlags::MAXBYTES) {
            let _ = writeln!(out, "       max_object_bytes: {}", granted.bytes_max);
        }
        if has(ConnectFlags::MULTIMODRPCS) {
            let _ = writeln!(out, "       max_mod_rpcs: {}", granted.modify_rpcs_max);
        }
    }
}

fn mean(of: &Histogram) -> u64 {
    of.sum.checked_div(of.count).unwrap_or(0)
}

/// Appends how large and how fast transfers are, if there were some.
fn averages(out: &mut String, name: &str, bytes: u64, usecs: u64) {
    if bytes == 0 || usecs == 0 {
        return;
    }
    // Bytes in a microsecond are megabytes in a second.
    let hundredths = bytes.saturating_mul(100) / usecs;
    let _ = write!(
        out,
        "    {name}_data_averages:\n       bytes_per_rpc: {bytes}\n       usecs_per_rpc: {usecs}\n       \
         MB_per_sec: {}.{:02}\n",
        hundredths / 100,
        hundredths % 100
    );
}

fn state(state: State) -> &'static str {
    match state {
        State::New => "NEW",
        State::Connecting => "CONNECTING",
        State::Full => "FULL",
        State::Replay => "REPLAY",
        State::ReplayLocks => "REPLAY_LOCKS",
        State::ReplayWait => "REPLAY_WAIT",
        State::Recover => "RECOVER",
        State::Idle => "IDLE",
        State::Evicted => "EVICTED",
        State::Disconnected(_) => "DISCONN",
        State::Closed(_) => "CLOSED",
    }
}

/// Returns the names of features, with those of a kernel's client where they differ from ours.
fn flags(flags: ConnectFlags, more: ConnectFlags2) -> Vec<String> {
    let first = flags.known().map(|(_, name)| name);
    let names = first.chain(more.known().map(|(_, name)| name));
    let shown = |name: &str| {
        let other = KERNEL_NAMES.iter().find(|(own, _)| *own == name);
        other.map_or_else(|| name.to_lowercase(), |(_, name)| (*name).to_owned())
    };
    names.map(shown).collect()
}

/// The features that the specification and a kernel's client name differently.
const KERNEL_NAMES: [(&str, &str); 23] = [
    ("GRANT", "write_grant"),
    ("SRVLOCK", "server_lock"),
    ("BRW_SIZE", "max_byte_per_rpc"),
    ("CANCELSET", "early_lock_cancel"),
    ("AT", "adaptive_timeouts"),
    ("CKSUM", "alt_checksum_algorithm"),
    ("FID", "fid_is_enabled"),
    ("VBR", "version_recovery"),
    ("LAYOUTLOCK", "layout_lock"),
    ("HASH_64BIT", "64bithash"),
    ("MAXBYTES", "object_max_bytes"),
    ("SHORTIO", "short_io"),
    ("FLAGS2", "second_flags"),
    ("LOCKAHEAD", "lockaheadv2"),
    ("INC_XID", "increasing_xid"),
    ("ENCRYPT", "client_encryption"),
    ("REP_MBITS", "reply_mbits"),
    ("MULTIMODRPCS", "multi_mod_rpcs"),
    ("FLOCK_DEAD", "flock_deadlock"),
    ("IBITS", "inode_bit_locks"),
    ("ATTRFID", "getattr_by_fid"),
    ("INDEX", "lov_index"),
    ("RDONLY", "read_only"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment =
        Moment { now: Duration::from_micros(2_500_000), begun: Duration::from_secs(1) };

    /// Features and their names, as a kernel's client of 2.17 showed them.
    #[test]
    fn features_have_the_names_of_a_kernels_client() {
        let shown = flags(
            ConnectFlags(0xa042_7af2_e344_0038),
            ConnectFlags2::LOCKAHEAD
                | ConnectFlags2::INC_XID
                | ConnectFlags2::ENCRYPT
                | ConnectFlags2::LSEEK
                | ConnectFlags2::REP_MBITS
                | ConnectFlags2::UNALIGNED_DIO,
        );
        assert_eq!(
            shown.join(", "),
            "write_grant, server_lock, version, max_byte_per_rpc, early_lock_cancel, \
             adaptive_timeouts, lru_resize, alt_checksum_algorithm, fid_is_enabled, \
             version_recovery, grant_shrink, full20, layout_lock, 64bithash, object_max_bytes, \
             jobstats, einprogress, grant_param, hpreq_check1, lvb_type, short_io, lfsck, \
             bulk_mbits, second_flags, lockaheadv2, increasing_xid, client_encryption, lseek, \
             reply_mbits, unaligned_dio"
        );
    }

    #[test]
    fn counters_have_the_form_of_a_kernels_client() {
        let mut all = Stats::default();
        all.writes.bytes.add(8192);
        all.in_flight.add(1);
        all.operations.entry(Opcode::OST_WRITE).or_default().add(3);
        all.operations.entry(Opcode::OST_SYNC).or_default().add(5);
        assert_eq!(
            stats(&all, MOMENT),
            "snapshot_time                       2.500000000 secs.nsecs\n\
             start_time                          1.000000000 secs.nsecs\n\
             elapsed_time                        1.500000000 secs.nsecs\n\
             req_waittime                        2 samples [usecs] 3 5 8 34\n\
             req_active                          1 samples [reqs] 1 1 1 1\n\
             write_bytes                         1 samples [bytes] 8192 8192 8192 67108864\n\
             ost_write                           1 samples [usecs] 3 3 3 9\n\
             ost_sync                            1 samples [usecs] 5 5 5 25\n"
        );
    }

    #[test]
    fn operations_of_users_have_the_form_of_a_kernels_client() {
        let mut counts: BTreeMap<Op, Histogram> = BTreeMap::new();
        [386, 27731, 991]
            .into_iter()
            .for_each(|time| counts.entry(Op::Read).or_default().add(time));
        [2, 8, 8].into_iter().for_each(|len| counts.entry(Op::ReadBytes).or_default().add(len));
        let text = operations(&counts, MOMENT.since(Some(Duration::from_secs(2))));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "start_time                          2.000000000 secs.nsecs",
                "elapsed_time                        0.500000000 secs.nsecs",
                "read_bytes                          3 samples [bytes] 2 8 18 132",
                "read                                3 samples [usecs] 386 27731 29108 770139438",
            ]
        );
        let text = pages_read(0, 1, MOMENT);
        let last = text.lines().last().unwrap();
        assert_eq!(last, "misses                              1 samples [pages]");
    }

    /// As the table of one read and seventeen writes of a page and one of two pages of a kernel's client.
    #[test]
    fn distributions_have_the_form_of_a_kernels_client() {
        let mut bytes = [Histogram::default(); 2];
        bytes[0].add(100);
        (0..17).for_each(|_| bytes[1].add(4096));
        bytes[1].add(8192);
        let mut out = String::new();
        table(&mut out, "pages per rpc         rpcs", &bytes.map(|one| pages(&one)), 1);
        assert_eq!(
            out,
            "\n\t\t\tread\t\t\twrite\n\
             pages per rpc         rpcs   % cum % |       rpcs   % cum %\n\
             1:\t\t         1 100 100   |         17  94  94\n\
             2:\t\t         0   0 100   |          1   5 100\n"
        );
        out.clear();
        table(&mut out, "RPC latency (us)       count", &[[0; Histogram::BUCKETS]; 2], 0);
        let empty = "0:\t\t         0   0   0   |          0   0   0";
        assert_eq!(out.lines().nth(3), Some(empty));
        assert_eq!(out.lines().count(), 4);
    }

    #[test]
    fn averages_are_those_of_a_kernels_client() {
        let mut out = String::new();
        averages(&mut out, "read", 4096, 2682);
        averages(&mut out, "write", 0, 0);
        assert_eq!(
            out,
            "    read_data_averages:\n       bytes_per_rpc: 4096\n       usecs_per_rpc: 2682\n       \
             MB_per_sec: 1.52\n"
        );
    }
}
