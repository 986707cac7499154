//! How files are opened, and hints about changes.

use fulmar_wire::wire_flags;

wire_flags! {
    /// How a file is opened. Spec: mdt-ost §6.1.
    #[doc(alias = "MDS_OPEN")]
    pub struct OpenFlags(u64) {
        READ = 0o1,
        WRITE = 0o2,
        /// To execute it.
        EXEC = 0o4,
        CREATED = 0o10,
        EXECUTE = 0o20,
        CREAT = 0o100,
        EXCL = 0o200,
        NOCTTY = 0o400,
        TRUNC = 0o1000,
        APPEND = 0o2000,
        NONBLOCK = 0o4000,
        SYNC = 0o10000,
        FASYNC = 0o20000,
        LARGEFILE = 0o100_000,
        DIRECTORY = 0o200_000,
        NOFOLLOW = 0o400_000,
        /// The FID is the file; the name is ignored.
        BY_FID = 0o40_000_000,
        /// Do not create the layout.
        DELAY_CREATE = 0o100_000_000,
        /// The owner may open regardless of the mode.
        OWNEROVERRIDE = 0o200_000_000,
        /// Return an open lock.
        LOCK = 0o4_000_000_000,
        /// A layout follows.
        HAS_EA = 0o10_000_000_000,
        /// A replay: the objects exist.
        HAS_OBJS = 0o20_000_000_000,
        /// Do not restore from the archive.
        NORESTORE = 0o100_000_000_000,
        /// Set the layout that follows.
        NEWSTRIPE = 0o200_000_000_000,
        /// A temporary file without a name.
        VOLATILE = 0o400_000_000_000,
        LEASE = 0o1_000_000_000_000,
        RELEASE = 0o2_000_000_000_000,
        /// Resynchronise mirrors. When a directory is created: it is striped.
        #[doc(alias = "MDS_MKDIR_LMV")]
        RESYNC = 0o4_000_000_000_000,
        PCC = 0o10_000_000_000_000,
        OP_WITH_FID = 0o20_000_000_000_000,
        /// The default layout of directories is wanted or given.
        DEFAULT_LMV = 0o40_000_000_000_000,
    }
}

wire_flags! {
    /// Hints about a change. Spec: mdt-ost §6.2.
    pub struct Bias(u32) {
        /// The second half of an operation on two MDTs.
        CROSS_REF = 1 << 1,
        /// Skip the check of permissions.
        PERM_BYPASS = 1 << 3,
        QUOTA_IGNORE = 1 << 5,
        KEEP_ORPHAN = 1 << 7,
        RECOV_OPEN = 1 << 8,
        /// The data was modified.
        DATA_MODIFIED = 1 << 9,
        CREATE_VOLATILE = 1 << 10,
        OWNEROVERRIDE = 1 << 11,
        HSM_RELEASE = 1 << 12,
        CLOSE_MIGRATE = 1 << 13,
        CLOSE_LAYOUT_SWAP = 1 << 14,
        CLOSE_LAYOUT_MERGE = 1 << 15,
        CLOSE_RESYNC_DONE = 1 << 16,
        CLOSE_LAYOUT_SPLIT = 1 << 17,
        TRUNC_KEEP_LEASE = 1 << 18,
        PCC_ATTACH = 1 << 19,
        CLOSE_UPDATE_TIMES = 1 << 20,
        SETSTRIPE_CREATE = 1 << 21,
        FID_OP = 1 << 22,
        MIGRATE_NSONLY = 1 << 23,
        CREATE_DEFAULT_LMV = 1 << 24,
        CLOSE_LAYOUT_SWAP_HSM = 1 << 25,
        RENAME_AGAIN = 1 << 26,
        /// The name is a hash of an encrypted name.
        NAMEHASH = 1 << 27,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_create_have_names() {
        // mdt-ost §26.2.
        assert_eq!(OpenFlags(0x200_0000_0242).to_string(), "WRITE|CREAT|TRUNC|DEFAULT_LMV");
        assert_eq!(Bias(0x200).to_string(), "DATA_MODIFIED");
    }
}
