//! The memory of bulk transfers: shared, reused and freed buffers.
//!
//! Most transfers share buffers: unchecked data is received into one and sent from it, and all good
//! data is sent from another. Only a receiver that checks needs its own buffer. It is poisoned when
//! allocated, and the check poisons it again, so that it is ready for reuse.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{BufferId, Span};
use fulmar_lnet_wire::selftest::{Check, WORD};

use crate::api::{Contents, Task};

/// The longest transfer, and the length of the shared buffers.
pub(crate) const BULK_LEN_MAX: u32 = 1 << 20;
/// How many unused poisoned buffers are kept.
const SPARE_MAX: usize = 64;
/// Minimum length of poisoned buffers, so that short transfers can reuse them.
const CLASS_LEN_MIN: u32 = 4096;

/// Set in the IDs of buffers of the machine.
const OWN_BUFFERS: u64 = 1 << 63;

/// Memory lent to a transfer until it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a loan must be returned"]
pub(crate) struct Loan {
    pub(crate) span: Span,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shared,
    /// Good data with a damaged word.
    Damaged,
    /// A private buffer, to be checked.
    Poisoned,
}

impl Loan {
    /// Returns whether received data must be checked.
    pub(crate) fn is_checked(&self) -> bool {
        self.kind == Kind::Poisoned
    }
}

/// All bulk memory of the node.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The shared buffers that exist.
    shared: BTreeMap<Contents, BufferId>,
    /// Unused poisoned buffers, by length.
    spare: BTreeMap<u32, Vec<BufferId>>,
    spares: usize,
    lent: usize,
    /// How many more words to damage.
    to_damage: u32,
    next: u64,
    outputs: VecDeque<Task>,
}

impl Memory {
    pub(crate) fn new(inject_errors: u32) -> Self {
        Self {
            shared: BTreeMap::new(),
            spare: BTreeMap::new(),
            spares: 0,
            lent: 0,
            to_damage: inject_errors,
            next: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Lends memory to send `len` bytes from. Good data in every word passes every check.
    pub(crate) fn source(&mut self, len: u32, check: Check) -> Loan {
        self.lent += 1;
        if !reads_data(check) {
            return self.share(Contents::Zeros, len);
        }
        if self.to_damage == 0 {
            return self.share(Contents::Good, len);
        }
        let span = Span { buffer: self.allocate(len, Contents::Good), offset: 0, len };
        // Every check includes the first word.
        let word = Span { len: WORD as u32, ..span };
        self.outputs.push_back(Task::Damage { span: word, add: self.to_damage.into() });
        self.to_damage -= 1;
        Loan { span, kind: Kind::Damaged }
    }

    /// Lends memory to receive `len` bytes into.
    pub(crate) fn sink(&mut self, len: u32, check: Check) -> Loan {
        self.lent += 1;
        if !reads_data(check) {
            return self.share(Contents::Zeros, len);
        }
        let class = class(len);
        let buffer = match self.spare.get_mut(&class).and_then(Vec::pop) {
            Some(buffer) => {
                self.spares -= 1;
                buffer
            }
            None => self.allocate(class, Contents::Zeros),
        };
        Loan { span: Span { buffer, offset: 0, len }, kind: Kind::Poisoned }
    }

    /// Receives unused memory back, with any contents.
    pub(crate) fn give_back(&mut self, loan: Loan) {
        self.lent = self.lent.checked_sub(1).expect("only lent memory is returned");
        if loan.kind != Kind::Shared {
            self.release(loan.span.buffer);
        }
    }

    /// Receives memory back that was checked, and so poisoned again.
    pub(crate) fn give_back_checked(&mut self, loan: Loan) {
        assert!(loan.is_checked(), "shared memory is not checked");
        if self.spares == SPARE_MAX {
            return self.give_back(loan);
        }
        self.lent = self.lent.checked_sub(1).expect("only lent memory is returned");
        self.spares += 1;
        self.spare.entry(class(loan.span.len)).or_default().push(loan.span.buffer);
    }

    /// Frees unneeded buffers, once no transfer is expected to use them soon.
    pub(crate) fn tidy(&mut self) {
        if self.lent > 0 {
            return;
        }
        let spare = std::mem::take(&mut self.spare).into_values().flatten();
        let shared = std::mem::take(&mut self.shared).into_values();
        self.spares = 0;
        self.outputs.extend(spare.chain(shared).map(|buffer| Task::Release { buffer }));
    }

    /// Returns the next task, if any.
    pub(crate) fn poll_output(&mut self) -> Option<Task> {
        self.outputs.pop_front()
    }

    /// Returns the number of loans.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Returns the number of loans and kept buffers: 0 if there is no buffer.
    pub(crate) fn buffers(&self) -> usize {
        self.lent + self.spares + self.shared.len()
    }

    fn share(&mut self, contents: Contents, len: u32) -> Loan {
        let buffer = match self.shared.get(&contents) {
            Some(buffer) => *buffer,
            None => {
                let buffer = self.allocate(BULK_LEN_MAX, contents);
                self.shared.insert(contents, buffer);
                buffer
            }
        };
        Loan { span: Span { buffer, offset: 0, len }, kind: Kind::Shared }
    }

    fn allocate(&mut self, len: u32, contents: Contents) -> BufferId {
        assert!(len <= BULK_LEN_MAX, "a transfer of {len} bytes is too long");
        let buffer = BufferId(OWN_BUFFERS | self.next);
        self.next += 1;
        self.outputs.push_back(Task::Allocate { buffer, len, contents });
        buffer
    }

    fn release(&mut self, buffer: BufferId) {
        self.outputs.push_back(Task::Release { buffer });
    }
}

/// Returns whether this check makes a receiver read the data.
fn reads_data(check: Check) -> bool {
    matches!(check, Check::SIMPLE | Check::FULL)
}

/// Returns how much memory a receiver of `len` bytes needs for itself; 0 if that is invalid.
pub(crate) fn sink_cost(len: u32, check: Check) -> u32 {
    if reads_data(check) && len <= BULK_LEN_MAX { class(len) } else { 0 }
}

fn class(len: u32) -> u32 {
    len.next_power_of_two().max(CLASS_LEN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(memory: &mut Memory) -> Vec<Task> {
        std::iter::from_fn(|| memory.poll_output()).collect()
    }

    #[test]
    fn unchecked_data_shares_one_buffer_in_both_directions() {
        let mut memory = Memory::new(0);
        let [one, two] = [memory.source(8, Check::NONE), memory.sink(1 << 20, Check::DISCARD)];
        assert_eq!(one.span.buffer, two.span.buffer);
        assert_eq!(outputs(&mut memory).len(), 1);
        memory.give_back(one);
        memory.tidy();
        assert_eq!(outputs(&mut memory), [], "the other is still lent");
        memory.give_back(two);
        memory.tidy();
        assert!(matches!(outputs(&mut memory)[..], [Task::Release { .. }]));
        assert_eq!(memory.buffers(), 0);
    }

    #[test]
    fn a_checked_sink_is_reused_and_a_failed_one_is_not() {
        let mut memory = Memory::new(0);
        let first = memory.sink(4096, Check::FULL);
        memory.give_back_checked(first);
        let second = memory.sink(8, Check::SIMPLE);
        assert_eq!(second.span.buffer, first.span.buffer);
        memory.give_back(second);
        let third = memory.sink(8, Check::SIMPLE);
        assert_ne!(third.span.buffer, first.span.buffer);
        memory.give_back(third);
    }

    #[test]
    fn the_requested_number_of_words_is_damaged() {
        let mut memory = Memory::new(2);
        let loans: Vec<_> = (0..3).map(|_| memory.source(64, Check::FULL)).collect();
        let added = |output| match output {
            Task::Damage { add, .. } => Some(add),
            _ => None,
        };
        assert_eq!(outputs(&mut memory).into_iter().filter_map(added).collect::<Vec<_>>(), [2, 1]);
        loans.into_iter().for_each(|loan| memory.give_back(loan));
        memory.tidy();
        assert_eq!(memory.buffers(), 0);
    }

    #[test]
    fn spare_buffers_are_not_kept_without_bound() {
        let mut memory = Memory::new(0);
        let loans: Vec<_> = (0..100).map(|_| memory.sink(4096, Check::FULL)).collect();
        loans.into_iter().for_each(|loan| memory.give_back_checked(loan));
        let released = |output: &Task| matches!(output, Task::Release { .. });
        assert_eq!(outputs(&mut memory).iter().filter(|output| released(output)).count(), 36);
    }
}
