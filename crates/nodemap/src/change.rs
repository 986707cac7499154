//! What an administrator changes. Spec: ptlrpc-ldlm-mgs §32.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::mgs::{NodemapFlags, NodemapFlags2};

use crate::fileset::{Fileset, PATH_MAX};
use crate::map::IdKind;
use crate::nodemap::{Nodemap, Role};
use crate::nodemaps::Nodemaps;
use crate::ranges::{Nids, Range};

/// The most nodemaps, ranges, and pairs of ids of a kind.
const NODEMAPS_MAX: usize = 1 << 12;
const RANGES_MAX: usize = 1 << 16;
const IDS_MAX: usize = 1 << 16;

/// A change of a nodemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes it, like the one of all other clients.
    Add,
    /// Removes it.
    Remove,
    /// Adds clients.
    AddNids(Nids),
    /// Removes clients, which were added so.
    RemoveNids(Nids),
    /// Sets a property.
    Set(Property),
    /// Adds ids of clients from the first one on, ids of the file system, and how many.
    AddIds(IdKind, u32, u32, u32),
    /// Removes the same.
    RemoveIds(IdKind, u32, u32, u32),
    /// Moves all ids to others in the file system: the first one, and how many there are.
    AddOffset(u32, u32),
    /// Ends that.
    RemoveOffset,
    /// Sets the root directory of clients; none for that of the file system.
    SetFileset(Option<String>),
}

/// A property of a nodemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Property {
    Flag(NodemapFlags, bool),
    Flag2(NodemapFlags2, bool),
    /// Who unknown users, groups or projects are.
    Squash(IdKind, u32),
    /// Which ids are mapped: some of the three flags for that.
    Maps(NodemapFlags),
    /// Which roles are added, and which are taken away. Both sets all: only the first ones are left.
    Roles(u32, u32),
}

/// Why a text is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood(pub String);

/// Which ids are mapped.
pub(crate) const MAPS: NodemapFlags =
    NodemapFlags(NodemapFlags::MAP_UID.0 | NodemapFlags::MAP_GID.0 | NodemapFlags::MAP_PROJID.0);

impl Property {
    /// The names of properties.
    pub const NAMES: [&str; 12] = [
        "admin",
        "audit_mode",
        "deny_mount",
        "deny_unknown",
        "forbid_encryption",
        "map_mode",
        "rbac",
        "readonly_mount",
        "squash_gid",
        "squash_projid",
        "squash_uid",
        "trusted",
    ];

    /// Reads a property, such as `admin` with the value `1`.
    ///
    /// # Errors
    /// What is wrong with the name or the value.
    pub fn parse(name: &str, value: &str) -> Result<Self, NotUnderstood> {
        let switch = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(NotUnderstood(format!("{name} is 0 or 1, not {value:?}"))),
        };
        let id = |kind| match value.parse() {
            Ok(0) if kind != IdKind::Project => {
                Err(NotUnderstood(format!("{name} is not 0: no user would be root")))
            }
            Ok(id) => Ok(Self::Squash(kind, id)),
            Err(_) => Err(NotUnderstood(format!("{name} is a number, not {value:?}"))),
        };
        Ok(match name {
            "admin" => Self::Flag(NodemapFlags::ALLOW_ROOT_ACCESS, switch()?),
            "trusted" => Self::Flag(NodemapFlags::TRUST_CLIENT_IDS, switch()?),
            "deny_unknown" => Self::Flag(NodemapFlags::DENY_UNKNOWN, switch()?),
            "audit_mode" => Self::Flag(NodemapFlags::ENABLE_AUDIT, switch()?),
            "forbid_encryption" => Self::Flag(NodemapFlags::FORBID_ENCRYPT, switch()?),
            "readonly_mount" => Self::Flag2(NodemapFlags2::READONLY_MOUNT, switch()?),
            "deny_mount" => Self::Flag2(NodemapFlags2::DENY_MOUNT, switch()?),
            "squash_uid" => id(IdKind::User)?,
            "squash_gid" => id(IdKind::Group)?,
            "squash_projid" => id(IdKind::Project)?,
            "map_mode" => maps(value)?,
            "rbac" => roles(value)?,
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(NotUnderstood(format!("{name} is not a property: they are {known}")));
            }
        })
    }
}

/// Reads which ids are mapped.
fn maps(value: &str) -> Result<Property, NotUnderstood> {
    let one = |word| match word {
        "all" => Ok(MAPS),
        "both" => Ok(NodemapFlags::MAP_UID | NodemapFlags::MAP_GID),
        "uid" | "uid_only" => Ok(NodemapFlags::MAP_UID),
        "gid" | "gid_only" => Ok(NodemapFlags::MAP_GID),
        "projid" | "projid_only" => Ok(NodemapFlags::MAP_PROJID),
        _ => Err(NotUnderstood(format!(
            "map_mode is all, both, or some of uid, gid, projid, not {word:?}"
        ))),
    };
    let flags =
        value.split(',').try_fold(NodemapFlags::NONE, |flags, word| Ok(flags.with(one(word)?)));
    flags.map(Property::Maps)
}

/// Reads roles: `all`, `none`, names, or changes such as `+hsm_ops,-file_perms`.
fn roles(value: &str) -> Result<Property, NotUnderstood> {
    let role = |name: &str| match name {
        "all" => Ok(Role::ALL),
        "none" => Ok(0),
        _ => {
            let found = Role::KNOWN.iter().find(|(_, known)| *known == name);
            found.map(|(role, _)| role.0).ok_or_else(|| {
                let known: Vec<&str> = Role::KNOWN.iter().map(|(_, name)| *name).collect();
                NotUnderstood(format!("{name:?} is not a role: they are {}", known.join(", ")))
            })
        }
    };
    let is_change = value.starts_with(['+', '-']);
    let (mut added, mut taken) = (0, if is_change { 0 } else { Role::ALL });
    for word in value.split(',') {
        match (word.strip_prefix('-'), word.strip_prefix('+').unwrap_or(word)) {
            (Some(name), _) if is_change => taken |= role(name)?,
            (None, name) if is_change == word.starts_with('+') => added |= role(name)?,
            _ => {
                return Err(NotUnderstood(format!("{value:?} mixes roles with + or - and others")));
            }
        }
    }
    Ok(Property::Roles(added, taken))
}

impl Change {
    /// Reads NIDs such as `10.0.0.[1-9]@tcp`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn nids(text: &str) -> Result<Nids, NotUnderstood> {
        Nids::parse(text).map_err(NotUnderstood)
    }

    /// Reads ids of clients and those of the file system, `500:1000` or `500-599:1000[-1099]`, as the first
    /// ones and their number.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn ids(text: &str) -> Result<(u32, u32, u32), NotUnderstood> {
        let wrong = |why: &str| NotUnderstood(format!("{text:?} {why}"));
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().ok();
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        };
        let form = || wrong("is not CLIENT:FS or CLIENT-CLIENT:FS");
        let (client, fs) = text.split_once(':').ok_or_else(form)?;
        let (first, last) = range(client).ok_or_else(form)?;
        let (start, end) = range(fs).ok_or_else(form)?;
        let count = last - first;
        match () {
            () if fs.contains('-') && end - start != count => {
                Err(wrong("has ranges of two lengths"))
            }
            () if count as usize >= IDS_MAX => Err(wrong("has too many ids: use an offset")),
            () if start.checked_add(count).is_none() => Err(wrong("ends above the last id")),
            () => Ok((first, start, count + 1)),
        }
    }
}

impl Nodemaps {
    /// Uses the nodemaps, or not.
    pub fn activate(&mut self, is_active: bool) {
        self.set_active(is_active);
    }

    /// Changes the nodemap of a name.
    ///
    /// # Errors
    /// EEXIST, ENOENT if there is none; EINVAL for a wrong name, for what the default nodemap cannot have,
    /// or for what is not there; ENAMETOOLONG, ENOSPC; ERANGE for an offset that overlaps another one,
    /// or if there is one. Nothing has changed then.
    pub fn change(&mut self, name: &str, change: &Change) -> Result<(), Errno> {
        if let Change::Add = change {
            return self.add(name);
        }
        let id = self.id_of(name).ok_or(Errno::ENOENT)?;
        // All clients are in it, with ids that nothing is known of.
        if id == 0 && !matches!(change, Change::Set(_) | Change::SetFileset(_)) {
            return Err(Errno::EINVAL);
        }
        match change {
            Change::Add => Ok(()),
            Change::Remove => {
                self.remove(id);
                Ok(())
            }
            Change::AddNids(_) if self.ranges.len() >= RANGES_MAX => Err(Errno::ENOSPC),
            Change::AddNids(nids) => {
                let range = Range { nids: *nids, nodemap: id, is_banned: false };
                self.ranges.insert(None, range).map(drop)
            }
            Change::RemoveNids(nids) => self.ranges.remove(id, *nids, false),
            Change::AddOffset(start, limit) => self.add_offset(id, *start, *limit),
            other => self.get_mut(id).ok_or(Errno::ENOENT)?.change(other),
        }
    }

    fn add(&mut self, name: &str) -> Result<(), Errno> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.len() > Nodemap::NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return Err(Errno::EINVAL);
        }
        if self.id_of(name).is_some() {
            return Err(Errno::EEXIST);
        }
        if self.iter().count() >= NODEMAPS_MAX {
            return Err(Errno::ENOSPC);
        }
        let like = self.named(Nodemap::DEFAULT).cloned().unwrap_or_else(|| Nodemap::new(name));
        let next = self.iter().map(|(id, _)| id).max().unwrap_or(0) + 1;
        self.put(next, Nodemap { name: name.to_owned(), ..like });
        Ok(())
    }

    fn add_offset(&mut self, id: u32, start: u32, limit: u32) -> Result<(), Errno> {
        if start == 0 || limit == 0 || start.checked_add(limit).is_none_or(|end| end == u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let overlaps =
            |(other, of_other): (u32, u32)| start < other + of_other && other < start + limit;
        if self.iter().any(|(other, nodemap)| {
            nodemap.offset.is_some_and(|range| other == id || overlaps(range))
        }) {
            return Err(Errno::ERANGE);
        }
        self.get_mut(id).ok_or(Errno::ENOENT)?.offset = Some((start, limit));
        Ok(())
    }
}

impl Nodemap {
    fn change(&mut self, change: &Change) -> Result<(), Errno> {
        match change {
            Change::Set(property) => self.set(*property),
            Change::AddIds(kind, client, fs, count) => {
                let ids = &mut self.ids[*kind as usize];
                if ids.len() + *count as usize > IDS_MAX {
                    return Err(Errno::ENOSPC);
                }
                (0..*count).for_each(|at| ids.insert(client + at, fs + at));
            }
            Change::RemoveIds(kind, client, _, count) => {
                let ids = &mut self.ids[*kind as usize];
                if (0..*count).any(|at| ids.to_fs(client + at).is_none()) {
                    return Err(Errno::EINVAL);
                }
                for at in 0..*count {
                    ids.remove(client + at);
                }
            }
            Change::RemoveOffset => self.offset = None,
            Change::SetFileset(None) => drop(self.filesets.remove(&0)),
            Change::SetFileset(Some(path)) => {
                if path.len() > PATH_MAX {
                    return Err(Errno::ENAMETOOLONG);
                }
                if !path.starts_with('/') || path.contains('\0') {
                    return Err(Errno::EINVAL);
                }
                let path = path.trim_end_matches('/').to_owned();
                self.filesets.insert(0, Fileset { path, is_read_only: false });
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn set(&mut self, property: Property) {
        match property {
            Property::Flag(flag, true) => self.flags = self.flags.with(flag),
            Property::Flag(flag, false) => self.flags = self.flags.without(flag),
            Property::Flag2(flag, true) => self.flags2 = self.flags2.with(flag),
            Property::Flag2(flag, false) => self.flags2 = self.flags2.without(flag),
            Property::Squash(kind, id) => self.squash[kind as usize] = id,
            Property::Maps(flags) => self.flags = self.flags.without(MAPS).with(flags),
            Property::Roles(added, taken) => {
                let left = self.roles.roles & !u64::from(taken);
                self.roles.roles = left | u64::from(added);
            }
        }
    }
}
