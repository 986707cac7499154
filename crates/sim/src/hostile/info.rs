//! Ping info that is not true.

use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::{Net, NetType, Nid, Pid};
use fulmar_wire::Order;

use super::HostileHost;
use crate::options::pick;

impl HostileHost {
    /// Draws encoded ping info: of which node, with which NIDs, and in which form.
    pub(super) fn info(&mut self) -> Vec<u8> {
        let all = Features::NI_STATUS.with(Features::MULTI_RAIL).with(Features::DISCOVERY);
        let features = match self.rng.below(8) {
            0 => Features(self.rng.u64() as u32),
            1 => all.without(Features::MULTI_RAIL),
            2 => all.without(Features::DISCOVERY),
            3 => all.with(Features::RTE_DISABLED),
            _ => all,
        };
        let sequence = *pick(&mut self.rng, &[0, 1, 2, u32::MAX, 1 << 31]);
        let entries = self.listed().into_iter().map(|nid| {
            let down = self.rng.one_in(4);
            NiEntry { nid, status: if down { NiStatus::DOWN } else { NiStatus::UP } }
        });
        let info = PingInfo { features, pid: Pid::LUSTRE, sequence, entries: entries.collect() };
        let mut bytes = Vec::new();
        info.encode(Order::Little, &mut bytes);
        match self.rng.below(12) {
            0 => self.flip(&mut bytes),
            1 => bytes.truncate(self.rng.below(bytes.len() as u64) as usize),
            _ => {}
        }
        bytes
    }

    /// Draws a list of NIDs; the first is the primary.
    fn listed(&mut self) -> Vec<Nid> {
        let (own, victim) = (self.own, *pick(&mut self.rng, &self.victims));
        let mut all = vec![own];
        match self.rng.below(10) {
            0 | 1 => {}
            2 => all = vec![victim, own],
            3 => all = vec![own, victim],
            4 => all = vec![victim],
            5 => all.extend(&self.victims),
            6 => all = self.victims.iter().copied().chain([own, victim, own]).collect(),
            7 => all = vec![self.nonexistent(), own, victim],
            8 => all.clear(),
            _ => {
                let count = *pick(&mut self.rng, &[3, 3, 20, 20, 100]);
                all.extend((0..count).map(|_| self.nonexistent()));
                all.push(victim);
            }
        }
        all
    }

    /// Draws a NID that no node has, often on a network that it is not on.
    pub(super) fn nonexistent(&mut self) -> Nid {
        let number = *pick(&mut self.rng, &[0, 0, 1, 7]);
        Nid::small(Net::new(NetType::TCP, number), 0x0a63_0000 | self.rng.below(1 << 16) as u32)
    }
}
