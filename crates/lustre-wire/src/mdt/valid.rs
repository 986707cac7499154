//! Which attributes are wanted or present.

use fulmar_wire::wire_flags;

wire_flags! {
    /// The attributes in an [`MdtBody`](super::MdtBody) or an [`Obdo`](crate::ost::Obdo) that are
    /// wanted or present. Spec: mdt-ost §3.2.
    #[doc(alias = "OBD_MD")]
    pub struct Valid(u64) {
        /// The object.
        FLID = 0x1,
        FLATIME = 0x2,
        FLMTIME = 0x4,
        FLCTIME = 0x8,
        FLSIZE = 0x10,
        FLBLOCKS = 0x20,
        FLBLKSZ = 0x40,
        /// The permission bits.
        FLMODE = 0x80,
        /// The type of the file.
        FLTYPE = 0x100,
        FLUID = 0x200,
        FLGID = 0x400,
        FLFLAGS = 0x800,
        /// Size and blocks of the part on the MDT.
        DOM_SIZE = 0x1000,
        FLNLINK = 0x2000,
        FLPARENT = 0x4000,
        LAYOUT_VERSION = 0x8000,
        FLRDEV = 0x1_0000,
        /// The layout is present.
        FLEASIZE = 0x2_0000,
        /// The target of a symlink is present.
        LINKNAME = 0x4_0000,
        FLHANDLE = 0x8_0000,
        FLCKSUM = 0x10_0000,
        FLPRJQUOTA = 0x40_0000,
        /// The sequence of the object.
        FLGROUP = 0x100_0000,
        /// The FID of the file that the object belongs to.
        FLFID = 0x200_0000,
        FLGRANT = 0x800_0000,
        /// The layout of a directory is present.
        FLDIREA = 0x1000_0000,
        FLUSRQUOTA = 0x2000_0000,
        FLGRPQUOTA = 0x4000_0000,
        /// The size of the largest layout.
        FLMODEASIZE = 0x8000_0000,
        /// The object is on another MDT.
        MDS = 0x1_0000_0000,
        /// The layout of a directory is that of a striped one.
        MEA = 0x4_0000_0000,
        TSTATE = 0x8_0000_0000,
        /// One extended attribute.
        FLXATTR = 0x10_0000_0000,
        /// The list of extended attributes.
        FLXATTRLS = 0x20_0000_0000,
        /// Remove an extended attribute.
        FLXATTRRM = 0x40_0000_0000,
        FLACL = 0x80_0000_0000,
        /// The sums over all targets.
        FLAGSTATFS = 0x100_0000_0000,
        FLCROSSREF = 0x1000_0000_0000,
        FLGETATTRLOCK = 0x2000_0000_0000,
        /// The number of objects.
        FLOBJCOUNT = 0x4000_0000_0000,
        FLDATAVERSION = 0x10_0000_0000_0000,
        CLOSE_INTENT_EXECED = 0x20_0000_0000_0000,
        /// The default layout of a striped directory is present.
        DEFAULT_MEA = 0x40_0000_0000_0000,
        FLOSTLAYOUT = 0x80_0000_0000_0000,
        FLPROJID = 0x100_0000_0000_0000,
        SECCTX = 0x200_0000_0000_0000,
        /// The size may be old.
        FLLAZYSIZE = 0x400_0000_0000_0000,
        /// The blocks may be old.
        FLLAZYBLOCKS = 0x800_0000_0000_0000,
        FLBTIME = 0x1000_0000_0000_0000,
        ENCCTX = 0x2000_0000_0000_0000,
        /// The name is a hash of an encrypted name.
        NAMEHASH = 0x4000_0000_0000_0000,
    }
}

impl Valid {
    /// What a stat of a file asks for, without the blocks.
    #[doc(alias = "OBD_MD_FLGETATTR")]
    pub const GETATTR: Self = Self(0x1100_0000_0101_6fdf);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_reply_has_no_size() {
        let valid = Valid(0x1100_0080_8002_2f8f);
        assert_eq!(valid.unknown(), Valid::NONE);
        assert!(valid.has(Valid::FLEASIZE) && !valid.has(Valid::FLSIZE));
        let text = "FLID|FLATIME|FLMTIME|FLCTIME|FLSIZE|FLBLKSZ|FLMODE|FLTYPE|FLUID|FLGID|FLFLAGS|\
                    FLNLINK|FLPARENT|FLRDEV|FLGROUP|FLPROJID|FLBTIME";
        assert_eq!(Valid::GETATTR.to_string(), text);
    }
}
