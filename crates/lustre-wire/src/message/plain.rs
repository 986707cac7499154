//! Messages of the flavor plain: a message in a container with checksums. Spec: ptlrpc-ldlm-mgs §9.3.

use std::borrow::Cow;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use super::{Container, EARLY_LEN, Flavor, HashKind, Head, Part, Policy, len_with};

/// A message that is wrapped in the flavor plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plain<'a> {
    /// The flavor, with the part that sent it and the algorithm of the hash of bulk data.
    pub(super) flavor: Flavor,
    /// The checksum of an early reply, else 0.
    pub(super) checksum: u32,
    /// The message inside, encoded.
    pub(super) message: Cow<'a, [u8]>,
    /// The user of a request.
    pub(super) user: Option<Cow<'a, User>>,
    /// The hash of the bulk data.
    pub(super) bulk: Option<BulkHash>,
}

impl Flavor {
    /// Returns the length of an early reply.
    pub fn early_len(self) -> usize {
        match self.policy() {
            Policy::PLAIN => len_with(&[8, EARLY_LEN, 0, 0]),
            _ => EARLY_LEN,
        }
    }

    /// Returns where the reply begins in memory that has room for an early one before it. In the
    /// flavor plain it may overwrite the end of that. Spec: ptlrpc-ldlm-mgs §7.3, §9.3.
    pub fn reply_offset(self) -> usize {
        match self.policy() {
            Policy::PLAIN => len_with(&[0, EARLY_LEN, 0, 0]),
            _ => EARLY_LEN,
        }
    }

    /// Returns the length of a message of `len` bytes when it is wrapped: at most, for some have no
    /// bulk data.
    pub fn wrapped_len(self, len: usize) -> usize {
        match self.policy() {
            Policy::PLAIN => len_with(&[8, len, 0, 16]),
            _ => len,
        }
    }
}

wire_flags! {
    /// Which parts a wrapped message has.
    struct PlainFlags(u8) {
        /// A user.
        USER = 1,
        /// The hash of bulk data.
        BULK = 2,
    }
}

/// The user that a request is sent for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct User {
    /// The real user and group, then those for the file system.
    pub ids: [u32; 4],
    /// Capabilities.
    pub capabilities: u32,
    /// More groups.
    pub groups: Vec<u32>,
}

wire_struct! {
    /// The hash of bulk data.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct BulkHash {
        /// 0.
        pub version: u8,
        /// 0: the type of the flavor.
        pub kind: u8,
        /// The service: 0 none, 2 integrity.
        pub service: u8,
        /// 1 if the hash is wrong.
        pub flags: u8,
        /// The number of bytes.
        pub len: u32,
        /// The first bytes of the hash.
        pub hash: [u8; 8],
    }
}

impl<'a> Plain<'a> {
    /// Unwraps a container of the flavor plain.
    ///
    /// # Errors
    /// If a buffer is not valid.
    pub(super) fn of(container: Container<'a>) -> Result<Self, DecodeError> {
        let Container { head, order, buffers } = container;
        let mut buffers = buffers.into_iter();
        let mut next = || buffers.next().unwrap_or_default();
        let (header, message, user, bulk) = (next(), next(), next(), next());
        let mut r = Reader::new(&header, order);
        match r.u8("plain.version")? {
            0 => {}
            got => return Err(DecodeError::Version { got: got.into() }),
        }
        let flags = PlainFlags::read(&mut r, "plain.flags")?;
        let has_user = flags.has(PlainFlags::USER);
        let has_bulk = flags.has(PlainFlags::BULK);
        let part = Part::read(&mut r, "plain.part")?;
        let hash = HashKind::read(&mut r, "plain.bulk_hash")?;
        if hash.name().is_none() {
            return Err(DecodeError::Range { field: "plain.bulk_hash", got: hash.0.into() });
        }
        r.take("plain.padding", 4)?;
        Ok(Self {
            flavor: head.flavor.word().with_hash(hash).from_part(part),
            checksum: head.checksum,
            message,
            user: has_user.then(|| User::decode(&user, order)).transpose()?.map(Cow::Owned),
            // Where there are no bulk data after all, there is no hash.
            bulk: (has_bulk && !bulk.is_empty())
                .then(|| Field::read(&mut Reader::new(&bulk, order), "plain.bulk"))
                .transpose()?,
        })
    }

    /// Puts the parts into a container.
    pub(super) fn wrap(self) -> Container<'a> {
        let mut flags = PlainFlags::NONE;
        let [mut header, mut user, mut bulk] = [const { Vec::new() }; 3];
        if let Some(value) = self.user {
            flags = flags.with(PlainFlags::USER);
            value.encode(&mut user);
        }
        if let Some(value) = self.bulk {
            flags = flags.with(PlainFlags::BULK);
            value.write(&mut Writer::new(&mut bulk, Order::Little));
        }
        header.extend([0, flags.0, self.flavor.part().0, self.flavor.hash().0, 0, 0, 0, 0]);
        let buffers = vec![header.into(), self.message, user.into(), bulk.into()];
        let head = Head { flavor: self.flavor.word(), checksum: self.checksum, ..Head::default() };
        Container { head, order: Order::Little, buffers }
    }
}

impl BulkHash {
    /// The service integrity, without a hash.
    pub const INTEGRITY: Self =
        Self { version: 0, kind: 0, service: 2, flags: 0, len: 0, hash: [0; 8] };

    /// Returns the hash of data in parts, if the algorithm is supported: a checksum of 32 bits.
    pub fn of<'a>(kind: HashKind, parts: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let checksum = match kind {
            HashKind::ADLER32 => {
                let mut adler = adler2::Adler32::new();
                parts.into_iter().for_each(|part| adler.write_slice(part));
                adler.checksum()
            }
            HashKind::CRC32 => {
                let mut crc = crc32fast::Hasher::new();
                parts.into_iter().for_each(|part| crc.update(part));
                !crc.finalize()
            }
            _ => return None,
        };
        let mut hash = [0; 8];
        hash[..4].copy_from_slice(&checksum.to_le_bytes());
        Some(Self { hash, ..Self::INTEGRITY })
    }
}

impl User {
    /// The most groups that are accepted from a peer.
    pub const GROUPS_MAX: u32 = 65_536;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes, order);
        let ids = Field::read(&mut r, "user.ids")?;
        let capabilities = r.u32("user.capabilities")?;
        let count = r.u32("user.group_count")?;
        if count > Self::GROUPS_MAX {
            return Err(DecodeError::Range { field: "user.group_count", got: count.into() });
        }
        let mut r = r.sub("user.groups", count as usize * 4)?;
        let groups = (0..count).map(|_| r.u32("user.groups")).collect::<Result<_, _>>()?;
        Ok(Self { ids, capabilities, groups })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out, Order::Little);
        self.ids.write(&mut w);
        w.u32(self.capabilities);
        w.u32(self.groups.len() as u32);
        self.groups.iter().for_each(|&group| w.u32(group));
    }
}
