//! The targets of file systems, and their names.

use std::fmt;

use fulmar_lnet_wire::Nid;
use fulmar_rpc::import::TargetKind;

/// Where a target is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The NIDs of its node, and then of each other node that may run it. Nodes without a NID are
    /// ignored.
    pub nodes: Vec<Vec<Nid>>,
}

/// The name of a target, such as `lv-OST0001`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetName {
    /// The file system.
    pub file_system: String,
    /// What it is: an MDT or an OST.
    pub kind: TargetKind,
    /// Its index.
    pub index: u16,
}

impl TargetName {
    /// The largest index. Higher ones name no single target in layouts.
    pub const INDEX_MAX: u16 = 0xffef;

    /// Reads the name of a target, such as `lv-OST0001`.
    pub fn parse(text: &str) -> Option<Self> {
        let (file_system, suffix) = text.rsplit_once('-')?;
        let (kind, digits) = suffix.split_at_checked(3)?;
        let kind = match kind {
            "MDT" => TargetKind::Mdt,
            "OST" => TargetKind::Ost,
            _ => return None,
        };
        let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let index = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        let file_system = Some(file_system).filter(|name| is_file_system_name(name))?.to_owned();
        Some(Self { file_system, kind, index })
    }

    /// Returns the end of the name, such as `OST0001`.
    pub fn suffix(&self) -> String {
        let kind = if self.kind == TargetKind::Mdt { "MDT" } else { "OST" };
        format!("{kind}{:04x}", self.index)
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.file_system, self.suffix())
    }
}

/// Returns whether a file system may have this name: 1 to 8 letters, digits, `_` and `-`.
pub fn is_file_system_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=8).contains(&name.len()) && name.chars().all(is_good)
}
