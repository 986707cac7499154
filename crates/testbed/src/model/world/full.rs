//! Servers without room. What of a write they have refused is there or not is adopted when it is read.

use std::collections::BTreeSet;

use fulmar_base::Errno;

use super::super::operation::{Operation, Step, bytes};
use super::super::outcome::Outcome;
use super::super::words::{How, Slot, Target};
use super::World;
use super::data::UNIT;
use super::files::Key;
use super::names::OperationResult;

/// Which servers have room.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Room {
    /// Those that have none.
    full: BTreeSet<Target>,
    /// The OSTs that the MDT may take for full. That one has room since a restart it learns some seconds later.
    stale: BTreeSet<Target>,
    /// The outcome of the operation that is applied next, if that says that there was no room.
    pub(super) refusal: Option<Outcome>,
}

impl Room {
    /// Notes which servers a fault has filled or drained. A server that is restarted has room.
    pub(super) fn change(&mut self, fault: &Operation) {
        match fault {
            Operation::Fill { target } => {
                self.full.extend(target.each());
                self.stale.extend(target.each());
            }
            Operation::Drain { target } => {
                let drained = target.each();
                self.full.retain(|one| !drained.contains(one));
                self.stale.retain(|one| !drained.contains(one));
            }
            Operation::Restart { target } => {
                let restarted = target.each();
                self.full.retain(|one| !restarted.contains(one));
            }
            _ => {}
        }
    }
}

impl World {
    /// Returns the servers that have no room.
    pub(crate) fn full(&self) -> &BTreeSet<Target> {
        &self.room.full
    }

    /// Returns the open files of a client that may be told of a refusal which another one has met.
    pub(crate) fn unreported(&self, client: u8) -> Vec<Slot> {
        let opens =
            self.opens.iter().filter(|((other, _), open)| *other == client && open.is_unreported);
        opens.map(|((_, slot), _)| *slot).collect()
    }

    /// Notes that an open file has been told of all refusals.
    pub(super) fn tell(&mut self, key: Key) {
        self.opens.get_mut(&key).into_iter().for_each(|open| open.is_unreported = false);
    }

    /// Adopts that an operation was refused for lack of room, where that may be.
    pub(super) fn adopt_refusal(&mut self, step: &Step, found: &Outcome) {
        let is_refusal = matches!(found, Outcome::Failed(Errno::ENOSPC) | Outcome::Part(_));
        if is_refusal && self.may_refuse(step, found) {
            self.room.refusal = Some(found.clone());
        }
    }

    fn may_refuse(&self, step: &Step, found: &Outcome) -> bool {
        let is_full = !self.room.full.is_empty();
        let is_unreported = |slot: &Slot| {
            let open = self.opens.get(&(step.client, *slot));
            open.is_some_and(|open| open.is_unreported) && *found == Outcome::Failed(Errno::ENOSPC)
        };
        match (&step.operation, found) {
            (Operation::Write { len, .. }, Outcome::Part(part)) => is_full && part < len,
            (_, Outcome::Part(_)) => false,
            (Operation::Write { slot, .. } | Operation::Copy { to: slot, .. }, _) => {
                is_full || is_unreported(slot)
            }
            (Operation::Sync { slot } | Operation::Close { slot }, _) => is_unreported(slot),
            (Operation::Allocate { how, .. }, _) => is_full && *how != How::Punch,
            // Objects are created.
            (Operation::Open { .. } | Operation::Cut { .. } | Operation::Truncate { .. }, _) => {
                Target::OSTS.iter().all(|ost| self.room.stale.contains(ost))
            }
            _ => false,
        }
    }

    /// Applies an allocation that was refused: that of one object changes nothing, but other servers may have executed theirs.
    fn refuse_space(&mut self, key: Key, (at, len): (u64, u64), how: How) -> Result<(), Errno> {
        let open = self.writable(key)?;
        let inode = self.inode(open.inode);
        let is_one = inode.has_one_object || at / UNIT == (at + len - 1) / UNIT;
        inode.mtime = if is_one { inode.mtime } else { None };
        let Some(data) = inode.data().filter(|_| !is_one) else { return Ok(()) };
        let start = if how == How::Zero { at } else { at.max(data.size()) };
        if matches!(how, How::Grow | How::Zero) && start < at + len {
            data.change_partly(key.0, start, &vec![0; (at + len - start) as usize], 0);
        }
        data.allocate(at, len);
        Ok(())
    }

    /// Applies an operation that was refused for lack of room, and returns that.
    pub(super) fn refuse(&mut self, step: &Step, found: Outcome) -> OperationResult {
        let (client, is_full) = (step.client, !self.room.full.is_empty());
        let key = |slot: &Slot| (client, *slot);
        let (changed, at, bytes) = match &step.operation {
            Operation::Write { slot, at, len, pattern } => {
                let open = self.writable(key(slot))?;
                let size = self.size(key(slot)).unwrap_or_default();
                let (place, at) = open.place(*at, size);
                (*slot, at, bytes(*pattern, place, *len))
            }
            Operation::Copy { slot, at, len, to, start } => {
                (*to, *start, self.copied(key(slot), (*at, *len), key(to), *start)?)
            }
            Operation::Allocate { slot, at, len, how } => {
                self.refuse_space(key(slot), (*at, *len), *how)?;
                return Ok(found);
            }
            Operation::Sync { slot } => {
                self.tell(key(slot));
                return Ok(found);
            }
            Operation::Open { slot, .. } | Operation::Close { slot } => {
                self.close(key(slot));
                return Ok(found);
            }
            _ => return Ok(found),
        };
        let open = self.opened(key(&changed))?;
        let others = self.opens.iter_mut().filter(|(other, one)| {
            other.0 == client && one.inode == open.inode && other.1 != changed
        });
        others.for_each(|(_, other)| other.is_unreported = is_full);
        self.tell(key(&changed));
        let inode = self.inode(open.inode);
        inode.mtime = None;
        let written = if let Outcome::Part(len) = found { len } else { 0 };
        if let (Some(data), true) = (inode.data(), is_full) {
            data.change_partly(client, at, &bytes, written);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{World, parse};

    const BEGIN: &str = "0 open h0 /f rwc wide\n0 write h0 0 65540 1\n0 open h1 /f rw wide\n";

    /// Returns the model after operations, with what the last of them has returned.
    fn after(text: &str, found: &Outcome) -> (World, bool) {
        let (mut world, steps) = (World::default(), parse(&format!("{BEGIN}{text}")).unwrap());
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|step| drop(world.apply(step)));
        world.adopt(last, found);
        let is_admitted = world.apply(last).admits(found);
        (world, is_admitted)
    }

    /// Returns whether the model admits what an operation finds then.
    fn finds(world: &World, step: &str, found: &Outcome) -> bool {
        let (mut world, step) = (world.clone(), step.parse().unwrap());
        world.adopt(&step, found);
        world.apply(&step).admits(found)
    }

    const NO_ROOM: Outcome = Outcome::Failed(Errno::ENOSPC);

    #[test]
    fn what_needs_room_may_be_refused_while_a_server_has_none() {
        for (text, found, is_admitted) in [
            ("0 write h0 70000 10 2", NO_ROOM, false),
            ("0 fill ost1\n0 write h0 70000 10 2", NO_ROOM, true),
            ("0 fill ost1\n0 write h0 70000 10 2", Outcome::Part(4), true),
            ("0 fill ost1\n0 write h0 70000 10 2", Outcome::Part(10), false),
            ("0 fill ost1\n0 write h2 70000 10 2", NO_ROOM, false),
            ("0 fill ost1\n0 sync h0", NO_ROOM, false),
            ("0 fill ost1\n0 close h0", NO_ROOM, false),
            ("0 fill ost1\n0 read h0 0 1", NO_ROOM, false),
            ("0 fill ost1\n0 copy h0 0 10 h1 70000", NO_ROOM, true),
            ("0 fill ost1\n0 allocate h0 0 10 grow", NO_ROOM, true),
            ("0 fill ost1\n0 allocate h0 0 10 punch", NO_ROOM, false),
            ("0 fill ost1\n0 open h2 /g rwc plain", NO_ROOM, false),
            ("0 fill all\n0 open h2 /g rwc plain", NO_ROOM, true),
            ("0 fill all\n0 restart all\n0 open h2 /g rwc plain", NO_ROOM, true),
            ("0 fill all\n0 drain ost1\n0 open h2 /g rwc plain", NO_ROOM, false),
            ("0 fill all\n0 mkdir /g 0755", NO_ROOM, false),
            ("0 fill all\n0 drain all\n0 write h0 70000 10 2", NO_ROOM, false),
            ("0 fill ost1\n0 restart ost1\n0 write h0 70000 10 2", NO_ROOM, false),
        ] {
            assert_eq!(after(text, &found).1, is_admitted, "{text}: {found:?}");
        }
    }

    #[test]
    fn what_was_written_is_there_and_of_the_rest_any_part() {
        let text = "1 open h0 /f r wide\n0 fill ost1\n0 write h0 65530 10 2";
        let (world, _) = after(text, &Outcome::Part(4));
        let (old, new) = (bytes(1, 65530, 10), bytes(2, 65530, 10));
        let read = |written: &[u8], rest: &[u8]| {
            let found = Outcome::Bytes([written, rest].concat());
            finds(&world, "1 read h0 65530 10", &found)
        };
        assert!(read(&new[..4], &old[4..]) && read(&new[..4], &new[4..]));
        assert!(read(&new[..4], &[&old[4..6], &new[6..]].concat()));
        assert!(!read(&old[..4], &old[4..]), "what it has said is not there");
        assert!(!read(&new[..4], &[0; 6]));
    }

    #[test]
    fn an_open_file_is_told_of_the_refusal_of_another_one_once() {
        let (mut world, _) = after("0 fill ost1\n0 write h0 70000 10 2", &NO_ROOM);
        assert_eq!(world.unreported(0), [Slot(1)]);
        assert!(
            !finds(&world, "0 sync h0", &NO_ROOM) && finds(&world, "0 sync h1", &Outcome::Done)
        );
        assert!(
            finds(&world, "0 sync h1", &NO_ROOM) && finds(&world, "0 write h1 0 1 1", &NO_ROOM)
        );
        world.apply(&"0 sync h1".parse().unwrap());
        assert!(!finds(&world, "0 sync h1", &NO_ROOM));
    }

    #[test]
    fn an_allocation_that_is_refused_changes_nothing_of_one_object() {
        let zero = "0 fill ost1\n0 allocate h0 65530 10 zero";
        let zeros = Outcome::Bytes(vec![0; 10]);
        let (wide, _) = after(zero, &NO_ROOM);
        assert!(finds(&wide, "0 read h0 65530 10", &zeros));
        let (inside, _) = after("0 fill ost1\n0 allocate h0 0 10 zero", &NO_ROOM);
        assert!(!finds(&inside, "0 read h0 0 10", &zeros));
        let (mut plain, steps) = (World::default(), BEGIN.replace("wide", "plain") + zero);
        let steps = parse(&steps).unwrap();
        for step in &steps {
            plain.adopt(step, &NO_ROOM);
            plain.apply(step);
        }
        assert!(!finds(&plain, "0 read h0 65530 10", &zeros));
    }
}
