//! Batches of operations, as services post them.

use std::sync::Arc;

use fulmar_base::{BufferId, Errno};
use fulmar_lnet::{self as lnet, Bound, Get, Md, MdId, MdOptions, Me, Op, Put};

use crate::memories::{DescriptorKey, Memories};
use crate::memory::Memory;

/// A memory descriptor to be made: the bytes of operations, and how many they may be.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The location of the bytes.
    pub source: Source,
    /// The number of operations; `None` for any number. A PUT that is acknowledged counts as two,
    /// and so does a GET.
    pub threshold: Option<u32>,
    /// The options.
    pub options: MdOptions,
    /// With [`MdOptions::MAX_SIZE`], the most bytes of one operation.
    pub max_size: u32,
    /// Whether it is unlinked when it is exhausted.
    pub auto_unlink: bool,
    /// Returned in each event.
    pub user: u64,
}

/// The location of the bytes of a descriptor.
#[derive(Clone, Debug)]
pub enum Source {
    /// In memory, up to 1 MiB for a PUT or a GET.
    Memory(Memory),
    /// A few bytes to send.
    Bytes(Arc<[u8]>),
    /// Room for this number of bytes, which are in the event of each operation:
    /// [`Delivery::bytes`](crate::Delivery::bytes).
    Room(u32),
}

impl Descriptor {
    /// A descriptor of any number of operations, which stays until it is unlinked.
    pub fn new(source: Source) -> Self {
        let options = MdOptions::default();
        Self { source, threshold: None, options, max_size: 0, auto_unlink: false, user: 0 }
    }

    /// As [`Descriptor::new`], over memory.
    pub fn over(memory: impl Into<Memory>) -> Self {
        Self::new(Source::Memory(memory.into()))
    }

    /// As [`Descriptor::new`], of a few bytes to send.
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::new(Source::Bytes(bytes.into()))
    }

    /// As [`Descriptor::new`], with room for a few bytes.
    pub fn room(len: u32) -> Self {
        Self::new(Source::Room(len))
    }

    /// Unlinks the descriptor after `operations`.
    #[must_use]
    pub fn times(self, operations: u32) -> Self {
        Self { threshold: Some(operations), auto_unlink: true, ..self }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(self, options: MdOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the value that events return.
    #[must_use]
    pub fn user(self, user: u64) -> Self {
        Self { user, ..self }
    }

    fn split(self) -> (Md, lnet::Memory, Option<Memory>) {
        let (len, bytes, memory) = match self.source {
            Source::Memory(memory) => (memory.len() as u64, lnet::Memory::Buffer, Some(memory)),
            Source::Bytes(bytes) => (bytes.len() as u64, lnet::Memory::Bytes(bytes), None),
            Source::Room(len) => (len.into(), lnet::Memory::Inline, None),
        };
        let Self { threshold, options, max_size, auto_unlink, user, .. } = self;
        let buffer = BufferId(0);
        let md = Md { buffer, offset: 0, len, threshold, options, max_size, auto_unlink, user };
        (md, bytes, memory)
    }
}

/// Operations that are posted together: LNet's lock is taken once, and their messages are sent
/// together. They are executed in order.
#[derive(Debug, Default)]
pub struct Batch(pub(crate) Vec<Posting>);

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds [`Service::attach`](crate::Service::attach).
    pub fn attach(&mut self, portal: u32, me: Me, descriptor: Descriptor) {
        self.0.push(Posting::attach(portal, me, descriptor));
    }

    /// Adds [`Service::put`](crate::Service::put).
    pub fn put(&mut self, descriptor: Descriptor, put: Put) {
        self.0.push(Posting::put(descriptor, put));
    }

    /// Adds [`Service::put_again`](crate::Service::put_again).
    pub fn put_again(&mut self, md: MdId, put: Put) {
        self.0.push(Posting::put_again(md, put));
    }

    /// Adds [`Service::get`](crate::Service::get).
    pub fn get(&mut self, descriptor: Descriptor, get: Get) {
        self.0.push(Posting::get(descriptor, get));
    }

    /// Adds [`Service::get_again`](crate::Service::get_again).
    pub fn get_again(&mut self, md: MdId, get: Get) {
        self.0.push(Posting::get_again(md, get));
    }

    /// Adds [`Service::unlink`](crate::Service::unlink).
    pub fn unlink(&mut self, md: MdId) {
        self.0.push(Posting::unlink(md));
    }
}

/// One operation, and the memory of the descriptor that it makes.
#[derive(Debug)]
pub(crate) struct Posting {
    op: Op,
    memory: Option<Memory>,
}

impl Posting {
    /// `memory` is what [`Md::buffer`] stands for, if the operation makes a descriptor over memory.
    pub(crate) fn new(op: Op, memory: Option<Memory>) -> Self {
        Self { op, memory }
    }

    pub(crate) fn attach(portal: u32, me: Me, descriptor: Descriptor) -> Self {
        let (md, memory, held) = descriptor.split();
        let me = Me { unlink: true, ..me };
        Self::new(Op::Attach { portal, me, md, memory }, held)
    }

    pub(crate) fn put(descriptor: Descriptor, put: Put) -> Self {
        let (md, memory, held) = descriptor.split();
        Self::new(Op::Put { from: Bound::New(md, memory), put }, held)
    }

    pub(crate) fn put_again(md: MdId, put: Put) -> Self {
        Self::new(Op::Put { from: Bound::Again(md), put }, None)
    }

    pub(crate) fn get(descriptor: Descriptor, get: Get) -> Self {
        let (md, memory, held) = descriptor.split();
        Self::new(Op::Get { into: Bound::New(md, memory), get }, held)
    }

    pub(crate) fn get_again(md: MdId, get: Get) -> Self {
        Self::new(Op::Get { into: Bound::Again(md), get }, None)
    }

    pub(crate) fn unlink(md: MdId) -> Self {
        Self::new(Op::Unlink(md), None)
    }

    /// Returns EINVAL if the descriptor would reach beyond its memory, or receive into
    /// read-only memory.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let (md, bytes, receives) = match &self.op {
            Op::Attach { md, memory, .. } => (md, memory, md.options.has(MdOptions::OP_PUT)),
            Op::Put { from: Bound::New(md, memory), .. } => (md, memory, false),
            Op::Get { into: Bound::New(md, memory), .. } => (md, memory, true),
            _ => return Ok(()),
        };
        if !matches!(bytes, lnet::Memory::Buffer) {
            return Ok(());
        }
        let memory = self.memory.as_ref().ok_or(Errno::EINVAL)?;
        let end = md.offset.checked_add(md.len).ok_or(Errno::EINVAL)?;
        if end > memory.len() as u64 || (receives && !memory.is_writable()) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Sets the driver's name of the new descriptor, if there is one.
    pub(crate) fn name(self, memories: &mut Memories) -> (Op, Option<DescriptorKey>) {
        let Self { mut op, memory } = self;
        let key = descriptor(&mut op).map(|md| {
            let key = memories.add(md.user, memory);
            md.user = key.0;
            md.buffer = BufferId(key.0);
            key
        });
        (op, key)
    }
}

/// Returns the descriptor that an operation makes.
fn descriptor(op: &mut Op) -> Option<&mut Md> {
    match op {
        Op::Attach { md, .. }
        | Op::Put { from: Bound::New(md, _), .. }
        | Op::Get { into: Bound::New(md, _), .. } => Some(md),
        _ => None,
    }
}
