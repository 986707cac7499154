//! What an administrator changes while an MDT runs: values of parameters, and their texts.

use fulmar_lnet_wire::{Nid, NidList};
use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_target::parameters::number;

use crate::access::Capabilities;

/// What an administrator changes while an MDT runs.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// Who root of a client is here: a user and a group. The user 0: root.
    pub(crate) root_squash: (u32, u32),
    /// The clients whose root is root in any case.
    pub(crate) nosquash: Option<NidList>,
    /// The capabilities that users other than root may have.
    pub(crate) cap_mask: Capabilities,
    /// Whether users are in the groups that this machine knows, beside those that requests name.
    pub(crate) knows_groups: bool,
    /// How much newer an access must be than the last one, in seconds, to be noted.
    pub(crate) atime_diff: i64,
    /// The most bytes of a file that are on the MDT: a multiple of 64 KiB, or 0.
    pub(crate) on_mdt_max: u32,
    /// The kinds of owners whose limits of files hold.
    pub(crate) limited: Vec<QuotaKind>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            root_squash: (0, 0),
            nosquash: None,
            cap_mask: Capabilities::NONE,
            knows_groups: true,
            atime_diff: 60,
            on_mdt_max: 1 << 20,
            limited: KINDS.map(|(kind, _)| kind).to_vec(),
        }
    }
}

impl Tuning {
    /// Returns who root of a node is here, if somebody else.
    pub(crate) fn squash_of(&self, nid: Nid) -> Option<(u32, u32)> {
        let is_excepted = || self.nosquash.as_ref().is_some_and(|nids| nids.matches(nid));
        (self.root_squash.0 != 0 && !is_excepted()).then_some(self.root_squash)
    }
}

/// Reads a user and a group: `99:99`.
pub(crate) fn squash(text: &str) -> Result<(u32, u32), String> {
    let (uid, gid) = text.trim().split_once(':').ok_or(format!("{text:?} is not UID:GID"))?;
    Ok((number(uid)?, number(gid)?))
}

pub(crate) fn squash_text((uid, gid): (u32, u32)) -> String {
    format!("{uid}:{gid}")
}

/// Reads where the groups of users are from: whether this machine knows them. The program of a kernel's server means that
/// too.
pub(crate) fn knows_groups(text: &str) -> Result<bool, String> {
    match text.trim() {
        "NONE" => Ok(false),
        "SYSTEM" => Ok(true),
        text if text.ends_with("/l_getidentity") => Ok(true),
        text => Err(format!(
            "{text:?} is neither SYSTEM, the groups of this machine (/etc/group), nor NONE, only those that \
             clients name, of which a request has at most two"
        )),
    }
}

pub(crate) fn knows_groups_text(knows: bool) -> &'static str {
    if knows { "SYSTEM" } else { "NONE" }
}

/// Returns the most bytes of a file that are on the MDT if an administrator wants so many: a multiple of
/// 64 KiB. Spec: mdt-ost §11.4.
pub(crate) fn on_mdt_max(bytes: u64) -> Result<u32, String> {
    const UNIT: u32 = 64 << 10;
    match u32::try_from(bytes) {
        Ok(0) => Ok(0),
        Ok(bytes) if bytes <= 1 << 30 => Ok((bytes / UNIT * UNIT).max(UNIT)),
        _ => Err(format!("{bytes} bytes are more than 1 GiB, the most of a file on an MDT")),
    }
}

/// Reads ranges of NIDs, or `NONE`.
pub(crate) fn nids(text: &str) -> Result<Option<NidList>, String> {
    match text.trim() {
        "NONE" | "clear" | "" => Ok(None),
        text => text.parse().map(Some).map_err(|error| format!("{text:?}: {error}")),
    }
}

pub(crate) fn nids_text(nids: Option<&NidList>) -> String {
    nids.map_or("NONE".to_owned(), NidList::to_string)
}

/// The names of capabilities.
const CAPABILITIES: [(Capabilities, &str); 8] = [
    (Capabilities::CHOWN, "cap_chown"),
    (Capabilities::DAC_OVERRIDE, "cap_dac_override"),
    (Capabilities::DAC_READ_SEARCH, "cap_dac_read_search"),
    (Capabilities::FOWNER, "cap_fowner"),
    (Capabilities::FSETID, "cap_fsetid"),
    (Capabilities::LINUX_IMMUTABLE, "cap_linux_immutable"),
    (Capabilities::SYS_ADMIN, "cap_sys_admin"),
    (Capabilities::SYS_RESOURCE, "cap_sys_resource"),
];

/// Reads capabilities: a number, or names such as `cap_chown,cap_fowner`. Those that an MDT does not ask
/// for are dropped.
pub(crate) fn cap_mask(text: &str) -> Result<Capabilities, String> {
    let all = CAPABILITIES.iter().fold(Capabilities::NONE, |all, (one, _)| all.with(*one));
    if let Some(bits) = fulmar_text::integer(text.trim()) {
        return Ok(Capabilities(bits as u32 & all.0));
    }
    let mut names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.try_fold(Capabilities::NONE, |mask, name| {
        let lower = name.to_ascii_lowercase();
        let known = CAPABILITIES.iter().find(|(_, known)| *known == lower);
        let unknown = || format!("{name:?} is not a capability that matters here");
        known.map(|(one, _)| mask.with(*one)).ok_or_else(unknown)
    })
}

pub(crate) fn caps_text(mask: Capabilities) -> String {
    let names = CAPABILITIES.iter().filter(|(one, _)| mask.has(*one)).map(|(_, name)| *name);
    names.collect::<Vec<_>>().join(",")
}

/// The letters of the kinds of owners.
const KINDS: [(QuotaKind, char); 3] =
    [(QuotaKind::USER, 'u'), (QuotaKind::GROUP, 'g'), (QuotaKind::PROJECT, 'p')];

/// Reads kinds of owners: letters, or `none`.
pub(crate) fn kinds(text: &str) -> Result<Vec<QuotaKind>, String> {
    let letters = if text.trim() == "none" { "" } else { text.trim() };
    let kind = |letter| {
        let known = KINDS.iter().find(|(_, known)| *known == letter);
        known
            .map(|(kind, _)| *kind)
            .ok_or_else(|| format!("{text:?} is not none or some of u, g, p"))
    };
    letters.chars().map(kind).collect()
}

pub(crate) fn kinds_text(kinds: &[QuotaKind]) -> String {
    let letters = KINDS.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, letter)| *letter);
    let letters: String = letters.collect();
    if letters.is_empty() { "none".to_owned() } else { letters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_a_kernel_mdt() {
        assert_eq!(squash("0x63:99").map(squash_text), Ok("99:99".to_owned()));
        for wrong in ["99", "99:", "a:b", "-1:0", ""] {
            assert!(squash(wrong).is_err(), "{wrong}");
        }
        let list = nids("10.0.[1-3].*@tcp 0@lo").unwrap();
        assert_eq!(nids_text(list.as_ref()), "10.0.[1-3].*@tcp 0@lo");
        assert_eq!(nids_text(nids("NONE").unwrap().as_ref()), "NONE");
        assert!(nids("10.0.0.256@tcp").is_err());
        assert_eq!(
            cap_mask("cap_fowner,CAP_CHOWN").map(caps_text).unwrap(),
            "cap_chown,cap_fowner"
        );
        assert_eq!((cap_mask("0"), cap_mask("")), (Ok(Capabilities::NONE), Ok(Capabilities::NONE)));
        assert_eq!(cap_mask("0x80000002"), Ok(Capabilities::DAC_OVERRIDE));
        assert!(cap_mask("cap_net_raw").is_err());
        let most = |kib: u64| on_mdt_max(kib << 10).map(|bytes| bytes >> 10);
        assert_eq!([0, 1, 64, 129, 1 << 20].map(most), [0, 64, 64, 128, 1 << 20].map(Ok));
        assert!(most((1 << 20) + 1).is_err() && most(1 << 40).is_err());
        assert_eq!(kinds_text(&kinds("gu").unwrap()), "ug");
        assert_eq!(kinds_text(&kinds("none").unwrap()), "none");
        assert!(kinds("ux").is_err());
    }
}
