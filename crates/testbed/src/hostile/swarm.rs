//! Many connections of an attacker at once.

use fulmar_lnet_wire::socklnd::ConnKind;

use super::attacker::{Attacker, InfoOf};
use super::line::Line;

/// Connections, each of an identity. Those that the node closes are opened again.
#[derive(Debug)]
pub(super) struct Swarm {
    lines: Vec<(u64, Option<Line>)>,
    kind: ConnKind,
    narrow: bool,
    /// Connections that were opened, or refused.
    attempts: usize,
}

/// How many connections are opened in one turn, so that others go on meanwhile.
const OPENED_MAX: usize = 8;
/// How much one connection writes in one turn.
const CHUNK: usize = 1 << 18;

impl Swarm {
    /// One control connection for each of `identities`.
    pub(super) fn new(identities: impl IntoIterator<Item = u64>) -> Self {
        let lines = identities.into_iter().map(|identity| (identity, None)).collect();
        Self { lines, kind: ConnKind::CONTROL, narrow: false, attempts: 0 }
    }

    /// Gives the kernel little room for what the node sends.
    pub(super) fn narrow(self) -> Self {
        Self { narrow: true, ..self }
    }

    /// Uses connections of another kind.
    pub(super) fn kind(self, kind: ConnKind) -> Self {
        Self { kind, ..self }
    }

    /// Lets each connection write what `fill` queues when it has written all, and read `read` bytes.
    /// Received messages are counted, and pings answered with `info`.
    pub(super) fn turn(
        &mut self,
        attacker: &mut Attacker,
        mut fill: impl FnMut(&mut Attacker, u64, &mut Line),
        read: impl Fn(u64) -> usize,
        info: Option<&InfoOf<'_>>,
    ) {
        let (mut moved, mut opened) = (0, 0);
        for (identity, slot) in &mut self.lines {
            if slot.as_ref().is_some_and(Line::is_closed) {
                *slot = None;
                attacker.tally.refused += 1;
            }
            if slot.is_none() && opened < OPENED_MAX {
                opened += 1;
                *slot = attacker.open(*identity, self.kind).ok();
                if let Some(line) = slot.as_ref().filter(|_| self.narrow) {
                    line.narrow();
                }
            }
            let Some(line) = slot else { continue };
            if line.is_drained() {
                fill(attacker, *identity, line);
            }
            moved += line.flush(CHUNK);
            let limit = read(*identity);
            if limit > 0 {
                moved += line.read(limit);
                attacker.take(line, info);
            }
        }
        self.attempts += opened;
        if self.attempts >= self.lines.len() {
            attacker.ready();
        }
        if moved == 0 {
            attacker.rest();
        }
    }
}
