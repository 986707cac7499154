//! File identifiers.

use std::fmt;
use std::str::FromStr;

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

/// A text is not a FID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FidError(String);

impl fmt::Display for FidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a FID such as [0x200000402:0x1:0x0]", self.0)
    }
}

impl std::error::Error for FidError {}

impl FromStr for Fid {
    type Err = FidError;

    /// Reads the notation of `lfs path2fid`; the brackets may be left out.
    fn from_str(text: &str) -> Result<Self, FidError> {
        let error = || FidError(text.to_owned());
        let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let number = |part: &str| u64::from_str_radix(part.strip_prefix("0x")?, 16).ok();
        let parts: Option<Vec<u64>> = inside.unwrap_or(text).split(':').map(number).collect();
        let Some([seq, oid, version]) = parts.as_deref() else { return Err(error()) };
        let short = |number: u64| u32::try_from(number).map_err(|_| error());
        Ok(Self { seq: *seq, oid: short(*oid)?, version: short(*version)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fid_is_written_as_lfs_prints_it() {
        let fid = Fid { seq: 0x2_0000_0402, oid: 1, version: 0 };
        assert_eq!(fid.to_string(), "[0x200000402:0x1:0x0]");
        assert_eq!("[0x200000402:0x1:0x0]".parse(), Ok(fid));
        assert_eq!("0x200000402:0x1:0x0".parse(), Ok(fid));
        for wrong in [
            "",
            "[0x1:0x2]",
            "[1:2:0]",
            "[0x1:0x100000000:0x0]",
            "[0x1:0x2:0x0",
            "[0x1:0x2:0x0:0x0]",
        ] {
            assert!(wrong.parse::<Fid>().is_err(), "{wrong}");
        }
    }
}
