//! The groups of users, as the machine of the MDT knows them. Spec: mdt-ost §14.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most groups of a user, as in Linux.
const GROUPS_MAX: usize = 65_536;

/// Who knows in which groups users are, beside those that requests name. An answer does not take long.
pub trait Groups: Send + Sync {
    /// Returns all groups of a user, if it is known.
    fn of(&self, uid: u32) -> Option<Arc<[u32]>>;
}

/// Returns the groups of all users of a machine. `users` and `groups` have the forms of `passwd(5)` and `group(5)`; lines of
/// other forms are left out.
pub fn groups_of_users(users: &str, groups: &str) -> BTreeMap<u32, Arc<[u32]>> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for line in users.lines() {
        let mut fields = line.split(':');
        let (name, uid, gid) = (fields.next(), fields.nth(1), fields.next());
        if let (Some(name), Some(uid), Some(gid)) = (name, number(uid), number(gid)) {
            numbers.insert(name, uid);
            found.entry(uid).or_default().insert(gid);
        }
    }
    for line in groups.lines() {
        let mut fields = line.split(':').skip(2);
        let (gid, members) = (number(fields.next()), fields.next().unwrap_or_default());
        let Some(gid) = gid else { continue };
        for uid in members.split(',').filter_map(|name| numbers.get(name.trim())) {
            found.entry(*uid).or_default().insert(gid);
        }
    }
    let listed = |set: BTreeSet<u32>| set.into_iter().take(GROUPS_MAX).collect();
    found.into_iter().map(|(uid, set)| (uid, listed(set))).collect()
}

fn number(field: Option<&str>) -> Option<u32> {
    field?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_in_their_own_group_and_in_those_that_name_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100::/:/bin/sh\n\
                     bob:x:1001:101::/:/bin/sh\nanna:x:1000:7:::\n+::::::\nshort:x\n";
        let groups = "users:x:100:\nbuild:x:200:ann,bob\nall:x:300:bob, ann\nlost:x:400:eve\n\
                      none:x:x:ann\nshort\n";
        let found = groups_of_users(users, groups);
        let of = |uid: u32| found.get(&uid).map(|groups| groups.to_vec());
        assert_eq!(of(0), Some(vec![0]));
        assert_eq!(of(1000), Some(vec![7, 100, 200, 300]), "by both names");
        assert_eq!(of(1001), Some(vec![101, 200, 300]));
        assert_eq!((of(2), found.len()), (None, 3));
    }
}
