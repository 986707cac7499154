//! All nodemaps of a file system, and which of them a client has.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_lnet_wire::Nid;

use crate::nodemap::Nodemap;
use crate::ranges::Ranges;
use crate::view::View;

/// All nodemaps.
#[derive(Clone, Debug)]
pub struct Nodemaps {
    is_active: bool,
    /// By number. That of all clients without another one is 0.
    all: BTreeMap<u32, Arc<Nodemap>>,
    pub(crate) ranges: Ranges,
}

impl Default for Nodemaps {
    /// Returns those of a new file system: one for all clients, which is not used.
    fn default() -> Self {
        let all = BTreeMap::from([(0, Arc::new(Nodemap::new(Nodemap::DEFAULT)))]);
        Self { is_active: false, all, ranges: Ranges::default() }
    }
}

impl Nodemaps {
    /// Returns whether they are used.
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    pub(crate) fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
    }

    /// Returns the nodemap of a client, also if they are not used.
    pub fn of_nid(&self, nid: Nid) -> &Nodemap {
        self.find(nid).0
    }

    /// Returns the nodemap of a client, and whether the client is refused.
    fn find(&self, nid: Nid) -> (&Arc<Nodemap>, bool) {
        let found = self.ranges.find(nid);
        let found = found.and_then(|(id, is_banned)| Some((self.all.get(&id)?, is_banned)));
        found.unwrap_or_else(|| (&self.all[&0], false))
    }

    /// Returns what a target asks about a client.
    pub fn view(&self, nid: Nid) -> View {
        if self.is_active {
            let (nodemap, is_banned) = self.find(nid);
            View::new(nodemap.clone(), is_banned)
        } else {
            View::default()
        }
    }

    /// Returns a nodemap by its name.
    pub fn named(&self, name: &str) -> Option<&Nodemap> {
        let (_, nodemap) = self.all.iter().find(|(_, nodemap)| nodemap.name() == name)?;
        Some(nodemap)
    }

    /// Returns all with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Nodemap)> {
        self.all.iter().map(|(id, nodemap)| (*id, &**nodemap))
    }

    pub(crate) fn id_of(&self, name: &str) -> Option<u32> {
        self.iter().find(|(_, nodemap)| nodemap.name() == name).map(|(id, _)| id)
    }

    pub(crate) fn put(&mut self, id: u32, nodemap: Nodemap) {
        self.all.insert(id, Arc::new(nodemap));
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Nodemap> {
        self.all.get_mut(&id).map(Arc::make_mut)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.all.remove(&id);
        self.ranges.remove_all(id);
    }
}
