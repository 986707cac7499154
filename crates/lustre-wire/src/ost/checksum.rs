//! The kinds of checksums of bulk data. Spec: mdt-ost §18.2.

use fulmar_wire::{wire_enum, wire_flags};

wire_enum! {
    /// The kind of the checksum of a transfer: four bits in the flags of an [`Obdo`](super::Obdo).
    #[doc(alias = "OBD_FL_CKSUM")]
    #[derive(Default)]
    pub struct ChecksumKind(u32) {
        /// There is none.
        NONE = 0,
        /// CRC-32 without the final inversion.
        CRC32 = 1,
        /// Adler-32.
        ADLER = 2,
        /// CRC-32C.
        CRC32C = 4,
        /// Adler-32 of the IP checksums of sectors of 512 bytes.
        T10IP512 = 5,
        /// Adler-32 of the IP checksums of sectors of 4096 bytes.
        T10IP4K = 6,
        /// Adler-32 of the CRC-16s of sectors of 512 bytes.
        T10CRC512 = 7,
        /// Adler-32 of the CRC-16s of sectors of 4096 bytes.
        T10CRC4K = 8,
    }
}

wire_flags! {
    /// The kinds of checksums that a node can compute, in connect data.
    #[doc(alias = "OBD_CKSUM")]
    pub struct ChecksumTypes(u32) {
        CRC32 = 0x1,
        ADLER = 0x2,
        CRC32C = 0x4,
        T10IP512 = 0x10,
        T10IP4K = 0x20,
        T10CRC512 = 0x40,
        T10CRC4K = 0x80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_leaves_out_slow_kinds() {
        // ptlrpc-ldlm-mgs §39.3.
        assert_eq!(ChecksumTypes(0xb2).to_string(), "ADLER|T10IP512|T10IP4K|T10CRC4K");
    }
}
