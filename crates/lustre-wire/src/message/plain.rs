//! Messages of the flavor plain: a message in a container with checksums. Spec: ptlrpc-ldlm-mgs §9.3.

use std::borrow::Cow;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use super::{Container, Flavor, Head, Part, Policy};

/// A message that is wrapped in the flavor plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// The part of the file system that sent it.
    pub part: Part,
    /// The algorithm of the hash of bulk data.
    pub bulk_hash: u8,
    /// The message inside, encoded.
    pub message: Cow<'a, [u8]>,
    /// The user of a request.
    pub user: Option<User>,
    /// The hash of the bulk data.
    pub bulk: Option<BulkHash>,
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
        /// The algorithm.
        pub kind: u8,
        /// The service.
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
    /// Takes a container of the flavor plain apart.
    ///
    /// # Errors
    /// If the flavor is another one, or a buffer is not valid.
    pub fn of(container: Container<'a>) -> Result<Self, DecodeError> {
        let Container { head, order, buffers } = container;
        if head.flavor.policy() != Policy::PLAIN {
            return Err(DecodeError::Range { field: "flavor", got: head.flavor.0.into() });
        }
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
        Ok(Self {
            part: Field::read(&mut r, "plain.part")?,
            bulk_hash: r.u8("plain.bulk_hash")?,
            message,
            user: has_user.then(|| User::decode(&user, order)).transpose()?,
            bulk: has_bulk
                .then(|| Field::read(&mut Reader::new(&bulk, order), "plain.bulk"))
                .transpose()?,
        })
    }

    /// Puts the parts into a container, whose checksum is that of the message for an early reply.
    pub fn wrap(self) -> Container<'a> {
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
        header.extend([0, flags.0, self.part.0, self.bulk_hash, 0, 0, 0, 0]);
        let buffers = vec![header.into(), self.message, user.into(), bulk.into()];
        let head = Head { flavor: Flavor::PLAIN, ..Head::default() };
        Container { head, order: Order::Little, buffers }
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
