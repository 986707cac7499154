//! The data path of a file system client: what is cached, read ahead, written back, and how much is in flight.
//!
//! Pure: lengths, offsets, names of memory and times go in; what the host has to do comes out. It knows no RPC
//! layer, no lock manager, no names of files, and never sees the bytes.
//!
//! A [`Cache`] has all data of a mount. Its host has a [`FileId`] for each file that it knows, an
//! [`OpenId`] for each time that it is open, and reports what happens:
//!
//! | when | call |
//! |---|---|
//! | a target connects (it says [`Cache::wanted_grant`]), or has evicted the client | [`handle_connected`](Cache::handle_connected), [`handle_evicted`](Cache::handle_evicted) |
//! | a file is known, has another layout, another size, is no longer needed | [`add_file`](Cache::add_file), [`set_layout`](Cache::set_layout), [`set_size`](Cache::set_size), [`forget_file`](Cache::forget_file) |
//! | a lock on an object is granted, has to go | [`handle_lock`](Cache::handle_lock), [`handle_cancel`](Cache::handle_cancel) |
//! | a program reads, writes, syncs or closes, cuts, gives up | [`handle_read`](Cache::handle_read), [`handle_write`](Cache::handle_write), [`handle_flush`](Cache::handle_flush), [`handle_write_back`](Cache::handle_write_back), [`handle_truncate`](Cache::handle_truncate), [`handle_punch`](Cache::handle_punch), [`handle_interrupt`](Cache::handle_interrupt) |
//! | bytes are copied out of, or into, memory | [`handle_read_end`](Cache::handle_read_end), [`handle_filled`](Cache::handle_filled) |
//! | an administrator sets something, or looks | [`configure`](Cache::configure), [`target`](Cache::target), [`gauges`](Cache::gauges) |
//! | an RPC has ended, or its memory is free | [`handle_done`](Cache::handle_done), [`handle_released`](Cache::handle_released) |
//!
//! After each call, and when the time of [`Cache::poll_timeout`] has come, it does all that
//! [`Cache::poll_output`] returns, in order:
//!
//! ```
//! # use fulmar_data::{Bytes, Cache, Output, Reply, Settings};
//! # use fulmar_base::Time;
//! # struct Host;
//! # impl Host {
//! #     fn allocate(&mut self, _: fulmar_base::BufferId, _: u64) {}
//! #     fn release(&mut self, _: fulmar_base::BufferId) {}
//! #     fn send(&mut self, _: fulmar_data::Rpc) {}
//! #     fn copy_in(&mut self, _: fulmar_data::OpId, _: u64, _: fulmar_base::Span) {}
//! #     fn copy_out(&mut self, _: fulmar_data::OpId, _: Vec<Bytes>) {}
//! #     fn wake(&mut self, _: fulmar_data::OpId, _: Result<(), fulmar_base::Errno>) {}
//! #     fn written(&mut self, _: fulmar_data::OpId, _: Result<u64, fulmar_base::Errno>) {}
//! #     fn set_info(&mut self, _: fulmar_data::stripes::Target, _: u64) {}
//! # }
//! # let (mut cache, mut host, now) = (Cache::new(Settings::default()), Host, Time(0));
//! while let Some(output) = cache.poll_output() {
//!     match output {
//!         Output::Allocate { buffer, len } => host.allocate(buffer, len),
//!         Output::Release { buffer } => host.release(buffer),
//!         // Later: cache.handle_done(now, id, reply), and cache.handle_released(now, id) if it is kept.
//!         Output::Rpc(rpc) => host.send(*rpc),
//!         Output::Fill { op, offset, memory } => {
//!             host.copy_in(op, offset, memory);
//!             cache.handle_filled(now, op);
//!         }
//!         Output::Ready { op, bytes } => {
//!             host.copy_out(op, bytes);
//!             cache.handle_read_end(now, op);
//!         }
//!         Output::Written { op, result } => host.written(op, result),
//!         Output::Done { op, result } => host.wake(op, result),
//!         Output::Shrink { target, bytes } => host.set_info(target, bytes),
//!     }
//! }
//! ```
//!
//! Copies may be made later and without a lock of the cache: the memory stays until the call that ends them.
//!
//! # What the host does
//!
//! * **Locks.** It has a lock that covers a read or a write before it begins it, and until it is done (a page more
//!   on either side, as locks of clients have). What locks cover besides may be read ahead. A lock is given back
//!   after the end of `handle_cancel`.
//! * **Sizes.** It knows the size of a file before it reads, from the attributes that come with locks
//!   ([`Layout::size`](stripes::Layout::size)), and for a glimpse [`Cache::written_end`].
//! * **RPCs.** It gives [`Rpc`] the rest: the lock, owner and times. It repeats it if that may help
//!   (Spec: mdt-ost §17.7), and then reports one end. The memory of all spans together is the bulk, which
//!   begins at the first range's place in its page, or goes into a short message.
//! * **Durability.** A flush is over when the targets have the data. What syncs them is sent by the host. A write with
//!   a [`Stability`] is over when its data are on disk.
//!
//! # What the cache promises
//!
//! * Bytes of a buffer that an RPC, a replay or a reader has are not changed. Something new gets
//!   new memory, so no write waits for the wire and nothing is copied.
//! * Two writes of one page are never in flight together.
//! * A cached write has its grant and its memory before its bytes are accepted; writes that wait
//!   are served in order. Writes in flight, flushes and lock cancels need no memory, so they always
//!   go on.
//! * A file is as long as what was accepted: a write that fails before it has ended does not make it
//!   longer.
//! * A flush waits for what was written before it, not for what is written later.
//! * Readers come before read-ahead and write-behind, in memory and on the wire.
//! * The memory never exceeds [`Settings::memory`], and all [`Gauges`] are zero in the end.
//!
//! # Inside
//!
//! | part | state |
//! |---|---|
//! | `stripes` | a layout: which ranges of objects a range of a file is, which sizes belong together, and what must be made before a write |
//! | `pages` | the bytes of an object: ranges that are being read, clean, dirty or being written, with their memory |
//! | `dirty` | its dirty extents: what they have paid, and since when they are dirty |
//! | `writer` | which extents go into the next RPC |
//! | `reader` | the streams of an open file, and how far to read ahead of each |
//! | `grants` | the account of one target, as the other end of `ost`'s |
//! | `window` | how many RPCs are in flight to a target: twice the measured rate times the round trip |
//! | `budget`, `buffers` | the memory of the process: demand, write-back, speculation; which part uses which buffer |
//!
//! ```text
//! read   look at the pages ──► memory for what is missing ──► RPC ──► Ready ──► copied
//!             └─► reader: read ahead, while memory and locks reach
//! write  grant, limit of dirty data, memory ──► Fill ──► dirty ──► full, old, flushed, or others wait ──► RPC ──► clean
//!             └─ no: waits in line, and what is dirty is written        (no grant to come: written at once, then Written)
//! ```
//!
//! **A write is accepted** when it is cached with its grant; without one, or if it is to be on disk,
//! when its target has it. By what is accepted a file is longer, not by what is refused: parts for
//! which there is no grant are written one after the other, and a write of which something is
//! refused ends there, with a short count. What is accepted and lost later takes its growth along.
//! What becomes a hole is written first, since the file may end there, and the target may refuse.
//!
//! **Memory** is written once. A write gets new memory, also where it replaces dirty data, so data
//! on the wire or kept for a replay never change, no write waits for them, and nothing is copied.
//! Small writes fill one buffer after the other, wherever they go in the file; those that follow
//! one another are one piece. Buffers have at most 1 MiB, so that little is kept for what is left
//! in them.
//!
//! **Extents** of bytes, not pages, are dirty: a write of a part of a page reads nothing first.
//! Within one RPC only the outer ends may be within a page, as kernel clients do it. Two writes of
//! a page are never in flight together, since the target may execute them in any order and may read
//! the rest of the page.
//!
//! **A read under way** gets only what is still marked as such when it arrives; so neither a write
//! nor a lock cancel has to wait for it.
//!
//! **Back-pressure.** There are queues: writers of each target, readers for memory. A read takes
//! all its memory at once, and a write takes it for one part after the other, so no operation holds
//! some and waits for more. Reads and writes have a quarter of the memory each that others cannot
//! take; data that may be read again give way, then what is read ahead and not sent.
//!
//! **The model** in `tests/data` is a line with a rate and a round trip, targets with grants that
//! write late and lose nothing, and contents as symbols, so that gigabytes are compared byte by
//! byte in a second. One reader or writer with default settings gets more than nine tenths of 10
//! Gb/s over 50.5 ms; two clients change two files at random with lock cancels between, and always
//! see one image. RPCs fail, clients are evicted and programs interrupted at random: each operation
//! ends once, and all gauges are zero in the end.
#![forbid(unsafe_code)]

pub mod budget;
mod buffers;
mod cache;
mod dirty;
pub mod grants;
mod pages;
pub mod ranges;
pub mod reader;
pub mod stripes;
pub mod window;
mod writer;

pub use cache::{
    Bytes, Cache, Direction, FileId, Flags, Flow, Gauges, LockKey, OpId, OpenId, Output,
    PageCounts, Reply, Rpc, RpcId, Settings, Stability, TargetView, WriteError,
};
