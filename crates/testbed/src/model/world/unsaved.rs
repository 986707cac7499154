//! What of a file its clients may have alone, and what of it may be lost when one of them is killed.
//!
//! A page that a client has changed is on servers once the client has synced it, or another one has used it, for which it needed
//! the lock. Until then a server has the page as it was at any time since, and so with the length of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::super::operation::PAGE;
use super::data::UNIT;

/// A page of a file; none is one of zeros.
pub(super) type Page = Option<Arc<[u8; PAGE as usize]>>;

/// What of a file is not on servers for certain.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsavedParts {
    /// The pages that a client has changed, by number: each version since servers had the first of them.
    pages: BTreeMap<(u64, u8), Vec<Page>>,
    /// The length that servers have at least.
    size: u64,
    /// Where changes of a client since then end.
    ends: BTreeSet<(u64, u8)>,
}

/// What of a file was lost or refused: one version of each page is there, and one of some lengths.
#[derive(Clone, Debug, Default)]
pub(super) struct LostParts {
    pages: BTreeMap<u64, Vec<Page>>,
    sizes: BTreeSet<u64>,
    /// The client that was refused room, which may have alone what is found; what is found after a kill is on servers.
    pub(super) keeper: Option<u8>,
}

impl UnsavedParts {
    /// Notes a change of a page by a client from one version to another one.
    pub(super) fn change(&mut self, client: u8, number: u64, old: Page, new: Page) {
        self.pages.entry((number, client)).or_insert_with(|| vec![old]).push(new);
    }

    /// Notes one more version of a page of which a client has some alone.
    pub(super) fn add_version(&mut self, client: u8, number: u64, page: Page) {
        self.pages.get_mut(&(number, client)).into_iter().for_each(|all| all.push(page.clone()));
    }

    /// Notes where a change by a client ends that has made the file longer.
    pub(super) fn grow(&mut self, client: u8, end: u64) {
        if end > 0 {
            self.ends.insert((end, client));
        }
    }

    /// Notes that servers have what a client has changed.
    pub(super) fn sync(&mut self, client: u8) {
        self.pages.retain(|(_, other), _| *other != client);
        let ends = self.ends.iter().filter(|(_, other)| *other == client).map(|(end, _)| *end);
        self.save_to(ends.max().unwrap_or(0));
    }

    /// Notes that servers have some pages of all clients but one, which uses them.
    pub(super) fn used(&mut self, client: u8, numbers: Range<u64>) {
        let is_saved = |number: u64, other: u8| other != client && numbers.contains(&number);
        self.pages.retain(|(number, other), _| !is_saved(*number, *other));
        let ends = self.ends.iter().filter(|(end, other)| is_saved((end - 1) / PAGE, *other));
        self.save_to(ends.map(|(end, _)| *end).max().unwrap_or(0));
    }

    /// Notes that servers have these bytes of a page.
    pub(super) fn save(&mut self, number: u64, part: Range<usize>, bytes: &[u8]) {
        let of_page = self.pages.range_mut((number, 0)..=(number, u8::MAX));
        for page in of_page.flat_map(|(_, versions)| versions) {
            let page = page.get_or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[part.clone()].copy_from_slice(bytes);
        }
    }

    /// Notes that servers have at least this length.
    pub(super) fn save_to(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.ends.retain(|(end, _)| *end > self.size);
    }

    /// Notes that servers have set the length.
    pub(super) fn cut(&mut self, size: u64) {
        self.pages.retain(|(number, _), _| number * PAGE < size);
        self.ends.clear();
        self.size = size;
    }

    /// Removes what a client has alone, of a file of this length. Returns what of it may be there.
    pub(super) fn lose(&mut self, client: u8, size: u64) -> LostParts {
        let mut lost = LostParts::default();
        let (gone, rest) = std::mem::take(&mut self.pages)
            .into_iter()
            .partition(|((_, other), _)| *other == client);
        self.pages = rest;
        let gone: BTreeMap<(u64, u8), Vec<Page>> = gone;
        lost.pages = gone.into_iter().map(|((number, _), versions)| (number, versions)).collect();
        let of_others = self.ends.iter().filter(|(_, other)| *other != client).map(|(end, _)| *end);
        let least = of_others.max().unwrap_or(0).max(self.size);
        let own = self.ends.iter().filter(|(end, other)| *other == client && *end > least);
        if own.clone().next().is_some() {
            lost.sizes.extend(own.map(|(end, _)| *end));
            let ends = lost.pages.keys().map(|number| (number + 1) * PAGE);
            let borders = ends.filter(|end| end % UNIT == 0 && (least..=size).contains(end));
            lost.sizes.extend(borders);
            lost.sizes.insert(least);
        }
        self.ends.retain(|(_, other)| *other != client);
        lost
    }

    /// Adds what may not be on servers if the file has come to be the same in another way.
    pub(super) fn merge(&mut self, other: &Self) {
        for (key, versions) in &other.pages {
            let own = self.pages.entry(*key).or_default();
            let more: Vec<_> =
                versions.iter().filter(|page| !own.contains(page)).cloned().collect();
            own.extend(more);
        }
        self.size = self.size.min(other.size);
        self.ends.extend(&other.ends);
    }
}

impl LostParts {
    /// Returns what may be of a range that was refused: the pages before it and with it, and where the file of this size ends then,
    /// as the servers of its stripes may differ.
    pub(super) fn refused(
        client: u8,
        old: Vec<(u64, Page)>,
        new: Vec<(u64, Page)>,
        size: u64,
        range: Range<u64>,
    ) -> Self {
        let pages = old.into_iter().zip(new);
        let pages = pages.map(|((number, old), (_, new))| (number, vec![old, new])).collect();
        let behind = size.max(range.start).next_multiple_of(UNIT)..range.end;
        let ends = behind.step_by(UNIT as usize).chain([size, range.end]);
        let sizes = if size < range.end { ends.collect() } else { BTreeSet::new() };
        Self { pages, sizes, keeper: Some(client) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.sizes.is_empty()
    }

    /// Adds what was lost or refused later.
    pub(super) fn add(&mut self, other: Self) {
        for (number, versions) in other.pages {
            self.pages.entry(number).or_default().extend(versions);
        }
        self.sizes.extend(other.sizes);
        self.keeper = other.keeper;
    }

    /// Returns the numbers of the pages.
    pub(super) fn pages(&self) -> Vec<u64> {
        self.pages.keys().copied().collect()
    }

    /// Returns whether a length that was found is one that the file may have: then it is known.
    pub(super) fn adopt_size(&mut self, size: u64) -> bool {
        let may_be = self.sizes.contains(&size);
        if may_be {
            self.sizes.clear();
            self.pages.retain(|number, _| number * PAGE < size);
        }
        may_be
    }

    /// Returns whether each byte of a part of a page that was found is in a version of it. If it is all of the page, it is known then.
    pub(super) fn adopt(
        &mut self,
        number: u64,
        part: Range<usize>,
        found: &[u8],
        is_whole: bool,
    ) -> bool {
        let Some(versions) = self.pages.get(&number) else { return false };
        let may_be = part.zip(found).all(|(place, byte)| {
            versions.iter().any(|page| page.as_ref().map_or(0, |page| page[place]) == *byte)
        });
        if may_be && is_whole {
            self.pages.remove(&number);
        }
        may_be
    }

    /// Returns the least length, if there are several, and the first version of each page.
    pub(super) fn oldest(self) -> (Option<u64>, Vec<(u64, Page)>) {
        let first =
            |(number, versions): (u64, Vec<Page>)| (number, versions.into_iter().next().flatten());
        (self.sizes.first().copied(), self.pages.into_iter().map(first).collect())
    }
}
