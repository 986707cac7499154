//! Who may use the data of a file at the same time: any number of reads and writes, or one cut.
//!
//! A cut drops what is cached, and then changes the objects. Data that were read in between would be old, and
//! data that were written would be cut. Locks of targets do not help, since both would have the same one.

use std::collections::VecDeque;

use fulmar_lustre_wire::Fid;
use futures_channel::oneshot;

use crate::machine::context::Context;

/// Who uses a file, and who waits for that, in order.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    shared: u32,
    is_exclusive: bool,
    waiting: VecDeque<(bool, oneshot::Sender<()>)>,
}

impl Gate {
    fn admits(&self, exclusive: bool) -> bool {
        !self.is_exclusive && (!exclusive || self.shared == 0)
    }

    fn enter(&mut self, exclusive: bool) {
        if exclusive { self.is_exclusive = true } else { self.shared += 1 }
    }

    fn leave(&mut self, exclusive: bool) {
        if exclusive {
            self.is_exclusive = false
        } else {
            self.shared -= 1
        }
        while let Some((next, _)) = self.waiting.front()
            && self.admits(*next)
        {
            let Some((next, waiting)) = self.waiting.pop_front() else { return };
            // Who does not wait any more does not enter.
            if waiting.send(()).is_ok() {
                self.enter(next);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.shared == 0 && !self.is_exclusive && self.waiting.is_empty()
    }
}

/// A use of a file, which ends when it is dropped. Not to be dropped while the core is used.
#[must_use = "the use ends when it is dropped"]
pub(crate) struct Pass {
    cx: Context,
    fid: Fid,
    exclusive: bool,
}

impl Context {
    /// Waits until the data of a file may be read and written.
    pub(super) async fn share(&self, fid: Fid) -> Pass {
        self.enter(fid, false).await
    }

    /// Waits until no other operation reads or writes the data of a file.
    pub(super) async fn exclude(&self, fid: Fid) -> Pass {
        self.enter(fid, true).await
    }

    async fn enter(&self, fid: Fid, exclusive: bool) -> Pass {
        let waiting = {
            let mut core = self.core();
            let gate = core
                .mounts
                .get_mut(&self.mount)
                .map(|mount| mount.data.gates.entry(fid).or_default());
            match gate {
                Some(gate) if gate.waiting.is_empty() && gate.admits(exclusive) => {
                    gate.enter(exclusive);
                    None
                }
                Some(gate) => {
                    let (sender, waiting) = oneshot::channel();
                    gate.waiting.push_back((exclusive, sender));
                    Some(waiting)
                }
                None => None,
            }
        };
        if let Some(waiting) = waiting {
            // The mount has ended if there is no answer: then all that follows fails.
            let _ = waiting.await;
        }
        Pass { cx: self.clone(), fid, exclusive }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut core = self.cx.core();
        let Some(mount) = core.mounts.get_mut(&self.cx.mount) else { return };
        let Some(gate) = mount.data.gates.get_mut(&self.fid) else { return };
        gate.leave(self.exclusive);
        if gate.is_idle() {
            mount.data.gates.remove(&self.fid);
            mount.data.forget(self.fid);
        }
        core.touched_data.insert(self.cx.mount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_waits_for_others_and_those_after_it_for_the_cut() {
        let mut gate = Gate::default();
        assert!(gate.admits(false) && gate.admits(true));
        gate.enter(false);
        assert!(gate.admits(false) && !gate.admits(true));
        let wait = |gate: &mut Gate, exclusive| {
            let (sender, waiting) = oneshot::channel();
            gate.waiting.push_back((exclusive, sender));
            waiting
        };
        let (mut cut, mut read) = (wait(&mut gate, true), wait(&mut gate, false));
        gate.leave(false);
        assert_eq!((cut.try_recv(), read.try_recv()), (Ok(Some(())), Ok(None)));
        // One that is not wanted any more does not keep others out.
        drop(wait(&mut gate, true));
        gate.leave(true);
        assert_eq!((read.try_recv(), gate.shared), (Ok(Some(())), 1));
        gate.leave(false);
        assert!(gate.is_idle());
    }
}
