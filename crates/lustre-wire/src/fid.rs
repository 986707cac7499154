//! File identifiers.

use std::fmt;

use fulmar_wire::wire_struct;

use crate::serial::as_text;

wire_struct! {
    /// A file identifier (FID): 16 bytes. Spec: ptlrpc-ldlm-mgs §35.1.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Fid {
        /// The sequence, which one client or target allocates from.
        pub seq: u64,
        /// The object in the sequence.
        pub oid: u32,
        /// The version; 0 for every file.
        pub version: u32,
    }
}

impl fmt::Display for Fid {
    /// Writes the notation of `lfs path2fid`: `[0x200000402:0x1:0x0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.seq, self.oid, self.version)
    }
}

as_text!(Fid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fid_is_written_as_lfs_prints_it() {
        let fid = Fid { seq: 0x2_0000_0402, oid: 1, version: 0 };
        assert_eq!(fid.to_string(), "[0x200000402:0x1:0x0]");
    }
}
