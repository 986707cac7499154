//! The use of a file system: the sums over its targets. Spec: mdt-ost §22.10.

use fulmar_lustre_wire::mdt::Statfs;

/// Space in bytes and files, of a target or of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The size in bytes.
    pub bytes: u64,
    /// The free bytes.
    pub free: u64,
    /// The bytes that are free for users.
    pub available: u64,
    /// The files that there can be.
    pub files: u64,
    /// The files that can be created.
    pub free_files: u64,
}

impl Usage {
    /// Returns the use of one target.
    pub fn of(statfs: &Statfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(statfs.block_size.into());
        Self {
            bytes: bytes(statfs.blocks),
            free: bytes(statfs.free),
            available: bytes(statfs.available),
            files: statfs.files,
            free_files: statfs.free_files,
        }
    }

    /// Returns the use of a file system with these targets: the space of the OSTs and the files of
    /// the MDTs, as far as the OSTs have objects for them. Without OSTs, those of the MDTs. A target
    /// that has not answered counts with nothing.
    pub fn of_targets(mdts: &[Self], osts: &[Self]) -> Self {
        let metadata = mdts.iter().fold(Self::default(), Self::plus);
        if osts.is_empty() {
            return metadata;
        }
        let data = osts.iter().fold(Self::default(), Self::plus);
        let free_files = match data.files {
            0 => metadata.free_files,
            _ => metadata.free_files.min(data.free_files),
        };
        let files = metadata.used_files().saturating_add(free_files);
        Self { files, free_files, ..data }
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.bytes.saturating_sub(self.free)
    }

    /// Returns the files in use.
    pub fn used_files(&self) -> u64 {
        self.files.saturating_sub(self.free_files)
    }

    /// Returns which share of the space is in use, in percent.
    pub fn percent(&self) -> u64 {
        percent(self.used(), self.available)
    }

    /// Returns which share of the files is in use, in percent.
    pub fn percent_of_files(&self) -> u64 {
        percent(self.used_files(), self.free_files)
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            free: self.free.saturating_add(other.free),
            available: self.available.saturating_add(other.available),
            files: self.files.saturating_add(other.files),
            free_files: self.free_files.saturating_add(other.free_files),
        }
    }
}

/// Returns a share in percent, rounded up, as `df` does: space that is reserved does not count.
fn percent(used: u64, available: u64) -> u64 {
    let all = u128::from(used) + u128::from(available);
    let percent = (u128::from(used) * 100).div_ceil(all.max(1));
    percent as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(bytes: u64, files: u64, free_files: u64) -> Usage {
        Usage { bytes, free: bytes / 2, available: bytes / 4, files, free_files }
    }

    #[test]
    fn files_are_limited_by_the_objects_of_the_osts() {
        let mdts = [target(100, 245_760, 245_475)];
        let osts = [target(1000, 56_280, 55_988), target(3000, 56_280, 55_988)];
        let whole = Usage::of_targets(&mdts, &osts);
        assert_eq!((whole.bytes, whole.used(), whole.available), (4000, 2000, 1000));
        assert_eq!((whole.files, whole.used_files(), whole.free_files), (112_261, 285, 111_976));
        assert_eq!(Usage::of_targets(&mdts, &[]), mdts[0]);
        let silent = Usage::of_targets(&mdts, &[Usage::default()]);
        assert_eq!((silent.bytes, silent.files, silent.free_files), (0, 245_760, 245_475));
        assert_eq!(Usage::of_targets(&[], &osts).files, 0);
        let many = [target(1000, 900_000, 800_000)];
        assert_eq!(Usage::of_targets(&mdts, &many).files, 245_760);
    }

    #[test]
    fn shares_are_rounded_up_and_leave_out_what_is_reserved() {
        let part = |used, available| {
            let (bytes, free) = (used + 2 * available, 2 * available);
            Usage { bytes, free, available, files: used + available, free_files: available }
        };
        let shares = [(0, 0), (0, 9), (1, 9_999), (100, 9_900), (101, 9_899), (9, 0)];
        let expected = [0, 0, 1, 1, 2, 100];
        assert_eq!(shares.map(|(used, available)| part(used, available).percent()), expected);
        assert_eq!(shares.map(|(used, free)| part(used, free).percent_of_files()), expected);
        let full = Usage { bytes: u64::MAX, available: 1, ..Usage::default() };
        assert_eq!(full.percent(), 100);
    }

    #[test]
    fn blocks_have_a_size_and_nothing_overflows() {
        let statfs = Statfs { blocks: 10, free: 4, block_size: 4096, ..Statfs::default() };
        assert_eq!((Usage::of(&statfs).bytes, Usage::of(&statfs).used()), (40_960, 24_576));
        let statfs = Statfs { blocks: 1, free: u64::MAX, block_size: 4096, ..statfs };
        let usage = Usage::of(&statfs);
        assert_eq!((usage.used(), usage.free), (0, u64::MAX));
        assert_eq!(Usage::of_targets(&[], &[usage, usage]).free, u64::MAX);
    }
}
