//! What the selftest machine wants of its owner: memory with known data, and figures of the system.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_base::BufferId;
use fulmar_lnet_wire::selftest::{Check, Damage, Usage, WORD, fill, fill_poison, spoil, verify};
use fulmar_node::{Contents, QuestionId};
use fulmar_wire::Order;

use crate::buffer::{Buffer, Piece, Table};
use crate::conn::Conn;
use crate::sys;

/// The buffers of the machine, by their names.
#[derive(Default)]
pub(crate) struct Buffers(BTreeMap<BufferId, Buffer>);

/// What is to be done without the node's lock.
pub(crate) enum Job {
    Check { id: QuestionId, piece: Piece, check: Check, order: Order },
    Measure { id: QuestionId, conns: Vec<Arc<Conn>> },
}

/// What came of it.
pub(crate) enum Outcome {
    Checked(QuestionId, Result<(), Damage>),
    Measured(QuestionId, Usage),
}

impl Buffers {
    /// Makes memory for messages to others: zeros that nobody has touched.
    pub(crate) fn allocate(&mut self, table: &Arc<Table>, name: BufferId, len: u32) {
        self.0.insert(name, table.allocate_named(name, len as usize));
    }

    /// Makes memory with known data. Zeros are written too: what the selftest measures is memory,
    /// and not the one page of zeros that stands for all which nobody has touched.
    pub(crate) fn allocate_filled(
        &mut self,
        table: &Arc<Table>,
        name: BufferId,
        len: u32,
        contents: Contents,
    ) {
        let buffer = table.allocate_named(name, len as usize);
        let mut page = [0; PAGE];
        if contents == Contents::Good {
            fill(&mut page);
        }
        for offset in (0..buffer.len()).step_by(PAGE) {
            buffer.write_at(offset, &page[..PAGE.min(buffer.len() - offset)]);
        }
        self.0.insert(name, buffer);
    }

    /// Returns the buffer, which is to be dropped without the lock: memory may go back to the
    /// operating system.
    #[must_use]
    pub(crate) fn release(&mut self, name: BufferId) -> Option<Buffer> {
        self.0.remove(&name)
    }
}

/// Adds to the word at the beginning of `piece`.
pub(crate) fn damage_word(piece: &Piece, add: u64) {
    let mut word = [0; WORD];
    piece.region.read(piece.offset, &mut word);
    spoil(&mut word, add);
    piece.region.write(piece.offset, &word);
}

impl Job {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Check { id, piece, check: how, order } => {
                Outcome::Checked(id, check(&piece, how, order))
            }
            Self::Measure { id, conns } => Outcome::Measured(id, measure(&conns)),
        }
    }
}

/// Looks for words that are not good, and poisons what was looked at.
fn check(piece: &Piece, check: Check, order: Order) -> Result<(), Damage> {
    let mut result = Ok(());
    let mut poison = [0; PAGE];
    fill_poison(&mut poison);
    let mut page = [0; PAGE];
    for start in (0..piece.len).step_by(PAGE) {
        let len = PAGE.min(piece.len - start);
        let mut look = |offset: usize, len: usize| {
            let at = piece.offset + offset;
            piece.region.read(at, &mut page[..len]);
            result = result.and_then(|()| verify(&page[..len], offset, Check::FULL, order));
            piece.region.write(at, &poison[..len]);
        };
        match check {
            Check::FULL => look(start, len),
            Check::SIMPLE => {
                look(start, WORD.min(len));
                if len >= 2 * WORD {
                    look(start + len - WORD, WORD);
                }
            }
            _ => {}
        }
    }
    result
}

fn measure(conns: &[Arc<Conn>]) -> Usage {
    let mut usage = Usage { cpu_ns: sys::processor_time(), retransmits: 0, window: 0 };
    for info in conns.iter().filter_map(|conn| sys::tcp_info(conn.try_socket()?)) {
        usage.retransmits = usage.retransmits.saturating_add(info.retransmits);
        usage.window = usage.window.max(info.window);
    }
    usage
}

const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::selftest::{GOOD, POISON};

    use super::*;

    fn buffer(contents: Contents) -> (Arc<Table>, Buffers, Piece) {
        let (table, mut buffers) = (Arc::new(Table::default()), Buffers::default());
        let name = BufferId(1 << 63 | 1);
        buffers.allocate_filled(&table, name, 3 * PAGE as u32 + 24, contents);
        let piece = Piece { region: table.find(name).unwrap(), offset: 0, len: 3 * PAGE + 24 };
        (table, buffers, piece)
    }

    #[test]
    fn good_data_pass_once_and_are_poison_then() {
        for how in [Check::FULL, Check::SIMPLE] {
            let (_table, _buffers, piece) = buffer(Contents::Good);
            assert_eq!(check(&piece, how, Order::Little), Ok(()));
            let again = check(&piece, how, Order::Little);
            assert_eq!(again, Err(Damage { offset: 0, got: POISON }));
        }
    }

    #[test]
    fn one_damaged_word_is_found_by_a_full_check_wherever_it_is() {
        for at in [0, 8, PAGE, 2 * PAGE + 512, 3 * PAGE + 16] {
            let (_table, _buffers, piece) = buffer(Contents::Good);
            let word = Piece { region: piece.region.clone(), offset: at, len: WORD };
            damage_word(&word, 3);
            let found = check(&piece, Check::FULL, Order::Little);
            assert_eq!(found, Err(Damage { offset: at, got: GOOD + 3 }));
        }
    }

    #[test]
    fn released_memory_is_forgotten() {
        let (table, mut buffers, piece) = buffer(Contents::Zeros);
        drop(piece);
        let released = buffers.release(BufferId(1 << 63 | 1));
        assert!(table.find(BufferId(1 << 63 | 1)).is_some(), "whoever released it drops it");
        drop(released);
        assert!(table.find(BufferId(1 << 63 | 1)).is_none());
    }
}
