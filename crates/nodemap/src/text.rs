//! Nodemaps as text: the files that a kernel node has for them.

use std::fmt::Write;

use fulmar_lustre_wire::mgs::{NodemapFlags, NodemapFlags2};

use crate::map::IdKind;
use crate::nodemap::{Nodemap, Role};
use crate::nodemaps::Nodemaps;
use crate::ranges::Range;

impl Nodemaps {
    /// Returns the files: the parts of the name of each after `nodemap`, such as `site`, `ranges`, and its
    /// text.
    pub fn files(&self) -> Vec<(Vec<String>, String)> {
        let active = (vec!["active".to_owned()], format!("{}\n", u8::from(self.is_active())));
        let of_each = self.iter().flat_map(|(id, nodemap)| {
            let mut files = nodemap.files();
            let of_it = |(_, range): &(u32, Range)| range.nodemap == id;
            let ranges: Vec<(u32, Range)> = self.ranges.iter().filter(of_it).collect();
            let of_kind = |is_banned| {
                let lines = ranges.iter().filter(move |(_, range)| range.is_banned == is_banned);
                list(lines.map(|(id, range)| format!("id: {id}, {}", range.nids)))
            };
            files.push(("banlist", of_kind(true)));
            files.push(("id", format!("{id}\n")));
            files.push(("ranges", of_kind(false)));
            files.sort_unstable();
            let named = |file: &str| vec![nodemap.name().to_owned(), file.to_owned()];
            files.into_iter().map(move |(file, text)| (named(file), text)).collect::<Vec<_>>()
        });
        std::iter::once(active).chain(of_each).collect()
    }
}

impl Nodemap {
    fn files(&self) -> Vec<(&'static str, String)> {
        let flag = |flag| format!("{}\n", u8::from(self.has(flag)));
        let flag2 = |flag| format!("{}\n", u8::from(self.flags2.has(flag)));
        let squash = |kind: IdKind| format!("{}\n", self.squash[kind as usize]);
        vec![
            ("admin_nodemap", flag(NodemapFlags::ALLOW_ROOT_ACCESS)),
            ("audit_mode", flag(NodemapFlags::ENABLE_AUDIT)),
            ("deny_mount", flag2(NodemapFlags2::DENY_MOUNT)),
            ("deny_unknown", flag(NodemapFlags::DENY_UNKNOWN)),
            ("fileset", self.filesets()),
            ("forbid_encryption", flag(NodemapFlags::FORBID_ENCRYPT)),
            ("idmap", self.idmap()),
            ("map_mode", self.map_mode()),
            ("offset", self.offset_text()),
            ("rbac", self.roles_text()),
            ("readonly_mount", flag2(NodemapFlags2::READONLY_MOUNT)),
            ("squash_gid", squash(IdKind::Group)),
            ("squash_projid", squash(IdKind::Project)),
            ("squash_uid", squash(IdKind::User)),
            ("trusted_nodemap", flag(NodemapFlags::TRUST_CLIENT_IDS)),
        ]
    }

    fn filesets(&self) -> String {
        list(self.filesets.iter().map(|(number, fileset)| {
            let kind = if *number == 0 { "primary:    " } else { "alternate:  " };
            let mode = if fileset.is_read_only { ", mode: ro" } else { "" };
            format!("{kind} {}{mode}", fileset.path)
        }))
    }

    fn idmap(&self) -> String {
        list(IdKind::ALL.into_iter().flat_map(|kind| {
            let line = move |(client, fs)| {
                format!("idtype: {}, client_id: {client}, fs_id: {fs}", kind.name())
            };
            self.map(kind).pairs().map(line)
        }))
    }

    fn map_mode(&self) -> String {
        let kinds = [
            (NodemapFlags::MAP_UID, "uid"),
            (NodemapFlags::MAP_GID, "gid"),
            (NodemapFlags::MAP_PROJID, "projid"),
        ];
        let mapped = kinds.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name);
        let mapped = mapped.collect::<Vec<_>>().join(",");
        let short = match &*mapped {
            "uid,gid,projid" => "all",
            "uid,gid" => "both",
            other => other,
        };
        format!("{short}\n")
    }

    fn offset_text(&self) -> String {
        let (start, limit) = self.offset.unwrap_or_default();
        let mut text = "{\n".to_owned();
        for (kind, end) in IdKind::ALL.into_iter().zip([",", ",", ""]) {
            let name = kind.name();
            let _ = writeln!(text, " start_{name}: {start},\n limit_{name}: {limit}{end}");
        }
        text + "}\n"
    }

    fn roles_text(&self) -> String {
        let known = Role::KNOWN.iter().filter(|(role, _)| self.has_role(*role));
        let names: Vec<&str> = known.map(|(_, name)| *name).collect();
        let text = if names.is_empty() { "none".to_owned() } else { names.join(",") };
        format!("{text}\n")
    }
}

/// Returns items in the form of a kernel node.
fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|item| format!("\n {{ {item} }}")).collect();
    let end = if items.is_empty() { "" } else { "\n" };
    format!("[{}{end}]\n", items.join(","))
}
