//! Nodemaps: how an administrator changes them, and their index, which servers read in pages.
//! Spec: ptlrpc-ldlm-mgs §32.4.
//!
//! A reader that continues names the version of the nodemaps that it has begun with. If they have changed, it
//! is sent back to the start.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::mgs::{
    ConfigRead, ConfigReadReply, NodemapEntry, NodemapKey, NodemapRecord,
};
use fulmar_lustre_wire::{Content, List};
use fulmar_nodemap::{Change, Nodemaps};

use crate::keep;
use crate::register::ConfigurationChange;
use crate::service::Mgs;

/// What a reader gets as the place to continue at the end.
const END: u64 = 0xffff_ffff_ffff_fffe;
/// The entries of a page.
const PAGE: usize = (IndexPage::LEN - 16) / 40;
/// The sizes of units that are used, as logarithms: pages of 4 KiB to 64 KiB.
const UNIT_BITS_MIN: u8 = 12;
const UNIT_BITS_MAX: u8 = 16;
/// The most pages that are sent at once.
const PAGES_MAX: usize = 256;

impl Mgs {
    /// Returns the nodemaps.
    pub fn nodemaps(&self) -> &Nodemaps {
        &self.nodemaps
    }

    /// Uses the nodemaps, or not.
    pub fn activate_nodemaps(&mut self, is_active: bool) -> Vec<ConfigurationChange> {
        let changed = self.with_nodemaps(|nodemaps| {
            nodemaps.activate(is_active);
            Ok(())
        });
        changed.unwrap_or_default()
    }

    /// Changes the nodemap of a name.
    ///
    /// # Errors
    /// As [`Nodemaps::change`].
    pub fn change_nodemap(
        &mut self,
        name: &str,
        change: &Change,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        self.with_nodemaps(|nodemaps| nodemaps.change(name, change))
    }

    fn with_nodemaps(
        &mut self,
        change: impl FnOnce(&mut Nodemaps) -> Result<(), Errno>,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let by_key = |nodemaps: &Nodemaps| -> BTreeMap<NodemapKey, NodemapRecord> {
            nodemaps.entries().into_iter().map(|entry| (entry.key, entry.record)).collect()
        };
        let before = by_key(&self.nodemaps);
        change(&mut self.nodemaps)?;
        let after = by_key(&self.nodemaps);
        let is_new =
            |(key, record): &(&NodemapKey, &NodemapRecord)| before.get(key) != Some(record);
        let new = after.iter().filter(is_new);
        self.changes.extend(new.map(|(key, record)| keep::put_nodemap(*key, Some(record))));
        let gone = before.keys().filter(|key| !after.contains_key(key));
        self.changes.extend(gone.map(|key| keep::put_nodemap(*key, None)));
        self.nodemap_version = self.nodemap_version.wrapping_add(1);
        Ok(vec![ConfigurationChange::Nodemaps])
    }

    /// Returns pages of the index from a place on, and the place to continue at.
    pub(crate) fn read_nodemaps(&self, asked: &ConfigRead) -> (ConfigReadReply, Vec<u8>) {
        let entries = self.nodemaps.entries();
        let (version, from) = ((asked.offset >> 32) as u32, asked.offset as u32 as usize);
        if asked.offset != 0 && (version != self.nodemap_version || from > entries.len()) {
            return (ConfigReadReply::default(), vec![]);
        }
        let unit = 1_usize << asked.unit_bits.clamp(UNIT_BITS_MIN, UNIT_BITS_MAX);
        let in_unit = unit / IndexPage::LEN;
        let most = (asked.units as usize).clamp(1, PAGES_MAX / in_unit) * in_unit;
        let sent = &entries[from..entries.len().min(from + most * PAGE)];
        let page = |some: &[NodemapEntry]| IndexPage::new(some).unwrap_or_default();
        let mut pages: Vec<IndexPage> = sent.chunks(PAGE).map(page).collect();
        pages.resize_with(pages.len().next_multiple_of(in_unit), || page(&[]));
        let next = from + sent.len();
        let is_record = |entry: &NodemapEntry| matches!(entry.record, NodemapRecord::Nodemap(_));
        let offset = if next == entries.len() {
            END
        } else {
            u64::from(self.nodemap_version) << 32 | next as u64
        };
        // The records of nodemaps are the first pass.
        let pass = u64::from(next == entries.len() || !is_record(&entries[next]));
        (ConfigReadReply { offset, size: pass }, List(pages).to_bytes())
    }
}
