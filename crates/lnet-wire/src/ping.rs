//! Ping info: the list of a node's network interfaces, in a REPLY or a push.
//!
//! ```text
//! header, 16 bytes        0 magic  4 features  8 pid  12 count of small entries
//! small entry, 16 bytes   0 nid u64  8 status u32  12 size u32
//! large entry             0 status u32  4 large nid, its meaningful bytes only, padded to 4
//! ```
//!
//! In the sender's byte order, which follows from the magic; large NIDs are never swapped. Entry 0
//! is `0@lo`: its status is the sequence number, its size the length of the whole info if large
//! entries follow. The primary NID is entry 1, or the first large entry. Spec: lnet-wire §9.3 to
//! §9.5.

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum, wire_flags};

use crate::nid::{Nid, Pid};

wire_enum! {
    /// Whether a network interface is usable.
    pub struct NiStatus(u32) {
        /// Usable.
        UP = 0x15aa_c0de,
        /// Not usable.
        DOWN = 0xdead_face,
    }
}

wire_flags! {
    /// The features of a node. Unknown bits are kept and ignored.
    pub struct Features(u32) {
        /// Never set by current nodes.
        BASE = 0x01,
        /// Entries have a status. Info without it is rejected.
        NI_STATUS = 0x02,
        /// The node does not route.
        RTE_DISABLED = 0x04,
        /// All listed NIDs may be used interchangeably.
        MULTI_RAIL = 0x08,
        /// The node accepts pushes and its NID list may be adopted.
        DISCOVERY = 0x10,
        /// Large entries follow the small ones.
        LARGE_ADDR = 0x20,
        /// The first large entry is the primary NID.
        PRIMARY_LARGE = 0x40,
        /// LND metadata follows the entries.
        METADATA = 0x80,
    }
}

/// One network interface of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiEntry {
    /// Its NID.
    pub nid: Nid,
    /// Whether it is usable.
    pub status: NiStatus,
}

/// The ping info of a node.
///
/// `0@lo` is not in `entries`: its entry on the wire carries `sequence`.
#[doc(alias = "lnet_ping_info")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingInfo {
    /// The features of the node. The bits for large entries must agree with `entries`.
    pub features: Features,
    /// The process that answers.
    pub pid: Pid,
    /// Increases with every change of the list; any value is possible.
    pub sequence: u32,
    /// The interfaces with small NIDs, then those with large ones.
    pub entries: Vec<NiEntry>,
}

impl PingInfo {
    /// The magic number.
    #[doc(alias = "LNET_PROTO_PING_MAGIC")]
    pub const MAGIC: u32 = 0x7069_6e67;
    /// The buffer size of a first ping: 16 small entries.
    #[doc(alias = "LNET_PING_INFO_MIN_SIZE")]
    pub const SIZE_MIN: u32 = 272;
    /// The most entries that are accepted from a peer (`lnet_interfaces_max`).
    pub const ENTRIES_MAX: u32 = 4096;
    /// The length of the largest accepted info in bytes: all entries large.
    pub const SIZE_MAX: u32 = 16 + 24 * Self::ENTRIES_MAX;

    /// Decodes info from `bytes`, which may be truncated.
    ///
    /// Entries after the end of `bytes` are omitted; [`DecodedInfo::size`] is the length of the
    /// complete info. Metadata is ignored.
    pub fn decode(bytes: &[u8]) -> Result<DecodedInfo, DecodeError> {
        let mut r = Reader::new(bytes, Order::Little);
        let magic = r.array("ping.magic")?;
        let Some(order) = Order::of_magic(magic, Self::MAGIC) else {
            return Err(DecodeError::Magic { got: u32::from_le_bytes(magic) });
        };
        let mut r = r.in_order(order);
        let features = Features(r.u32("ping.features")?);
        if !features.has(Features::NI_STATUS) {
            return Err(DecodeError::Range { field: "ping.features", got: features.0.into() });
        }
        let pid = Pid(r.u32("ping.pid")?);
        let count = r.u32("ping.count")?;
        if !(1..=Self::ENTRIES_MAX).contains(&count) {
            return Err(DecodeError::Range { field: "ping.count", got: count.into() });
        }
        let loopback = r.u64("ping.loopback")?;
        if Nid::from_small(loopback) != Nid::LOOPBACK {
            return Err(DecodeError::Range { field: "ping.loopback", got: loopback });
        }
        let sequence = r.u32("ping.sequence")?;
        let declared = r.u32("ping.size")? & !3;
        let mut entries = decode_small(&mut r, count - 1)?;
        let mut size = 16 + 16 * count;
        if features.has(Features::LARGE_ADDR) {
            size = size.max(declared).min(Self::SIZE_MAX);
            if entries.len() as u32 == count - 1 {
                let room =
                    (size as usize).min(bytes.len()).saturating_sub(16 + 16 * count as usize);
                decode_large(&mut r.sub("ping.large", room)?, &mut entries);
            }
        }
        Ok(DecodedInfo { info: Self { features, pid, sequence, entries }, size, order })
    }

    /// Appends the info, in `order`, to `out`. Metadata is never written.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        let (small, large): (Vec<NiEntry>, Vec<NiEntry>) =
            self.entries.iter().partition(|entry| !entry.nid.is_large());
        let mut w = Writer::new(out, order);
        w.u32(Self::MAGIC);
        w.u32(self.features.0);
        w.u32(self.pid.0);
        w.u32(1 + small.len() as u32);
        Nid::LOOPBACK.encode_small(&mut w);
        w.u32(self.sequence);
        w.u32(if large.is_empty() { 0 } else { self.size() });
        for entry in small {
            entry.nid.encode_small(&mut w);
            w.u32(entry.status.0);
            w.u32(0);
        }
        for entry in large {
            w.u32(entry.status.0);
            let bytes = entry.nid.to_large();
            let len = entry.nid.large_len();
            w.bytes(&bytes[..len]);
            w.zeros(len.next_multiple_of(4) - len);
        }
    }

    /// Returns the encoded length in bytes.
    pub fn size(&self) -> u32 {
        let entry =
            |nid: Nid| if nid.is_large() { 4 + nid.large_len().next_multiple_of(4) } else { 16 };
        (32 + self.entries.iter().map(|e| entry(e.nid)).sum::<usize>()) as u32
    }

    /// Returns the primary NID of the node, if it lists any.
    pub fn primary(&self) -> Option<Nid> {
        let large = self.features.has(Features::PRIMARY_LARGE);
        let found = self.entries.iter().find(|entry| entry.nid.is_large() == large);
        found.map(|entry| entry.nid)
    }
}

/// The result of [`PingInfo::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedInfo {
    /// The info, as far as it was present.
    pub info: PingInfo,
    /// The length of the complete info in bytes; more than the input if that was truncated.
    pub size: u32,
    /// The sender's byte order.
    pub order: Order,
}

fn decode_small(r: &mut Reader<'_>, count: u32) -> Result<Vec<NiEntry>, DecodeError> {
    let mut entries = Vec::new();
    for _ in 0..count {
        if r.rest().len() < 16 {
            break;
        }
        let nid = Nid::decode_small(r, "ping.nid")?;
        let status = NiStatus(r.u32("ping.status")?);
        r.u32("ping.entry_size")?;
        entries.push(NiEntry { nid, status });
    }
    Ok(entries)
}

/// Reads large entries to the end of `r`; one that is truncated, too long for a NID, or of a NID
/// that has a small form is omitted.
fn decode_large(r: &mut Reader<'_>, entries: &mut Vec<NiEntry>) {
    while r.rest().len() >= 8 {
        let Ok(status) = r.u32("ping.large_status") else { return };
        let len = usize::from(r.rest()[0]) + 8;
        let Ok(bytes) = r.take("ping.large_nid", len.next_multiple_of(4)) else { return };
        if len > Nid::LARGE_LEN {
            continue;
        }
        let mut large = [0; Nid::LARGE_LEN];
        large[..len].copy_from_slice(&bytes[..len]);
        if let Ok(nid) = Nid::from_large(large)
            && nid.is_large()
        {
            entries.push(NiEntry { nid, status: NiStatus(status) });
        }
    }
}

#[cfg(test)]
mod tests;
