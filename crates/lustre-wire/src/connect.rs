//! What a client and a target agree on when they connect.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags};
use serde::Serialize;

use crate::Content;
use crate::ost::ChecksumTypes;
use crate::serial::as_text;

/// What a client requests and a target grants: `obd_connect_data`, 192 bytes.
/// Spec: ptlrpc-ldlm-mgs §13.1.
///
/// | offset | size | field |
/// |---:|---:|---|
/// | 0 | 8 | `flags` |
/// | 8 | 4 | `version` |
/// | 12 | 4 | `grant` |
/// | 16 | 4 | `index` |
/// | 20 | 4 | `brw_size` |
/// | 24 | 8 | `ibits_known` |
/// | 32 | 1, 1, 2, 4 | `grant_block_bits`, `grant_inode_bits`, `grant_tax_kib`, `grant_blocks_max` |
/// | 40 | 8 | `transno` |
/// | 48 | 4 | `group` |
/// | 52 | 4 | `checksums` |
/// | 56 | 4 | `ea_size_max` |
/// | 60 | 4 | `instance` |
/// | 64 | 8 | `bytes_max` |
/// | 72 | 2, 1 | `modify_rpcs_max`, `policy`; 5 zeros |
/// | 80 | 8 | `flags2` |
/// | 88 | 8 | `compression`; 96 zeros |
#[doc(alias = "obd_connect_data")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectData {
    /// Features.
    pub flags: ConnectFlags,
    /// The sender's release.
    pub version: Release,
    /// Bytes of space that are wanted, or granted.
    pub grant: u32,
    /// The index of the target.
    pub index: u32,
    /// The largest bulk transfer in bytes.
    pub brw_size: u32,
    /// Bits of inode locks that the sender knows.
    pub ibits_known: u64,
    /// Logarithm of the client's page size, or of the target's block size.
    pub grant_block_bits: u8,
    /// Logarithm of the space of an inode.
    pub grant_inode_bits: u8,
    /// Space for the insertion of an extent in KiB.
    pub grant_tax_kib: u16,
    /// The most blocks of an extent.
    pub grant_blocks_max: u32,
    /// The first transaction that the client will replay.
    pub transno: u64,
    /// The index of the connecting metadata target.
    pub group: u32,
    /// Checksum algorithms for bulk data.
    pub checksums: ChecksumTypes,
    /// The longest layout or extended attribute in bytes.
    pub ea_size_max: u32,
    /// The incarnation of the target.
    pub instance: u32,
    /// The largest size of an object.
    pub bytes_max: u64,
    /// The most modifying requests in flight.
    pub modify_rpcs_max: u16,
    /// Reserved.
    pub policy: u8,
    /// More features, where [`ConnectFlags::FLAGS2`] is set.
    pub flags2: ConnectFlags2,
    /// Reserved.
    pub compression: u64,
}

impl ConnectData {
    /// The length that is sent.
    pub const LEN: usize = 192;
    /// The length that peers before 2.7.50 send.
    pub const LEN_MIN: usize = 72;
}

impl Content for ConnectData {
    /// Decodes data of any length from [`ConnectData::LEN_MIN`] on. Missing fields are 0, and bytes
    /// after [`ConnectData::LEN`] are ignored.
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        if bytes.len() < Self::LEN_MIN {
            let missing = Self::LEN_MIN - bytes.len();
            return Err(DecodeError::Short { field: "connect_data", missing });
        }
        let mut whole = [0; Self::LEN];
        for (byte, &received) in whole.iter_mut().zip(bytes) {
            *byte = received;
        }
        let r = &mut Reader::new(&whole, order);
        Ok(Self {
            flags: Field::read(r, "connect_data.flags")?,
            version: Field::read(r, "connect_data.version")?,
            grant: r.u32("connect_data.grant")?,
            index: r.u32("connect_data.index")?,
            brw_size: r.u32("connect_data.brw_size")?,
            ibits_known: r.u64("connect_data.ibits_known")?,
            grant_block_bits: r.u8("connect_data.grant_block_bits")?,
            grant_inode_bits: r.u8("connect_data.grant_inode_bits")?,
            grant_tax_kib: r.u16("connect_data.grant_tax_kib")?,
            grant_blocks_max: r.u32("connect_data.grant_blocks_max")?,
            transno: r.u64("connect_data.transno")?,
            group: r.u32("connect_data.group")?,
            checksums: Field::read(r, "connect_data.checksums")?,
            ea_size_max: r.u32("connect_data.ea_size_max")?,
            instance: r.u32("connect_data.instance")?,
            bytes_max: r.u64("connect_data.bytes_max")?,
            modify_rpcs_max: r.u16("connect_data.modify_rpcs_max")?,
            policy: r.u8("connect_data.policy")?,
            flags2: {
                r.take("connect_data.padding", 5)?;
                Field::read(r, "connect_data.flags2")?
            },
            compression: r.u64("connect_data.compression")?,
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.flags.write(w);
        self.version.write(w);
        w.u32(self.grant);
        w.u32(self.index);
        w.u32(self.brw_size);
        w.u64(self.ibits_known);
        w.u8(self.grant_block_bits);
        w.u8(self.grant_inode_bits);
        w.u16(self.grant_tax_kib);
        w.u32(self.grant_blocks_max);
        w.u64(self.transno);
        w.u32(self.group);
        self.checksums.write(w);
        w.u32(self.ea_size_max);
        w.u32(self.instance);
        w.u64(self.bytes_max);
        w.u16(self.modify_rpcs_max);
        w.u8(self.policy);
        w.zeros(5);
        self.flags2.write(w);
        w.u64(self.compression);
        w.zeros(96);
    }
}

/// A release of Lustre, such as 2.17.51.0. Spec: ptlrpc-ldlm-mgs §1.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32);

impl Release {
    /// Returns a release by its four parts.
    pub const fn new(major: u8, minor: u8, patch: u8, fix: u8) -> Self {
        Self(u32::from_be_bytes([major, minor, patch, fix]))
    }

    /// Returns the four parts of the release.
    pub const fn parts(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl Field for Release {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.u32(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.0);
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch, fix] = self.parts();
        write!(f, "{major}.{minor}.{patch}.{fix}")
    }
}

wire_flags! {
    /// Features of a connection. Spec: ptlrpc-ldlm-mgs §13.2.
    pub struct ConnectFlags(u64) {
        RDONLY = 0x1,
        INDEX = 0x2,
        MDS = 0x4,
        GRANT = 0x8,
        SRVLOCK = 0x10,
        VERSION = 0x20,
        MGS_NIDLIST = 0x40,
        ACL = 0x80,
        XATTR = 0x100,
        LARGE_ACL = 0x200,
        OLD_FALLOC = 0x400,
        TRANSNO = 0x800,
        IBITS = 0x1000,
        BARRIER = 0x2000,
        ATTRFID = 0x4000,
        NODEVOH = 0x8000,
        RMT_CLIENT = 0x1_0000,
        RMT_CLIENT_FORCE = 0x2_0000,
        BRW_SIZE = 0x4_0000,
        QUOTA64 = 0x8_0000,
        MDS_CAPA = 0x10_0000,
        OSS_CAPA = 0x20_0000,
        CANCELSET = 0x40_0000,
        SOM = 0x80_0000,
        AT = 0x100_0000,
        LRU_RESIZE = 0x200_0000,
        MDS_MDS = 0x400_0000,
        REAL = 0x800_0000,
        CHANGE_QS = 0x1000_0000,
        CKSUM = 0x2000_0000,
        FID = 0x4000_0000,
        VBR = 0x8000_0000,
        LOV_V3 = 0x1_0000_0000,
        GRANT_SHRINK = 0x2_0000_0000,
        SKIP_ORPHAN = 0x4_0000_0000,
        MAX_EASIZE = 0x8_0000_0000,
        FULL20 = 0x10_0000_0000,
        LAYOUTLOCK = 0x20_0000_0000,
        HASH_64BIT = 0x40_0000_0000,
        MAXBYTES = 0x80_0000_0000,
        IMP_RECOV = 0x100_0000_0000,
        JOBSTATS = 0x200_0000_0000,
        UMASK = 0x400_0000_0000,
        EINPROGRESS = 0x800_0000_0000,
        GRANT_PARAM = 0x1000_0000_0000,
        HPREQ_CHECK1 = 0x2000_0000_0000,
        LVB_TYPE = 0x4000_0000_0000,
        NANOSEC_TIME = 0x8000_0000_0000,
        LIGHTWEIGHT = 0x1_0000_0000_0000,
        SHORTIO = 0x2_0000_0000_0000,
        PINGLESS = 0x4_0000_0000_0000,
        FLOCK_DEAD = 0x8_0000_0000_0000,
        DISP_STRIPE = 0x10_0000_0000_0000,
        OPEN_BY_FID = 0x20_0000_0000_0000,
        LFSCK = 0x40_0000_0000_0000,
        UNLINK_CLOSE = 0x100_0000_0000_0000,
        MULTIMODRPCS = 0x200_0000_0000_0000,
        DIR_STRIPE = 0x400_0000_0000_0000,
        SUBTREE = 0x800_0000_0000_0000,
        LOCKAHEAD_OLD = 0x1000_0000_0000_0000,
        BULK_MBITS = 0x2000_0000_0000_0000,
        OBDOPACK = 0x4000_0000_0000_0000,
        FLAGS2 = 0x8000_0000_0000_0000,
    }
}

wire_flags! {
    /// More features of a connection. Spec: ptlrpc-ldlm-mgs §13.3.
    pub struct ConnectFlags2(u64) {
        FILE_SECCTX = 0x1,
        LOCKAHEAD = 0x2,
        DIR_MIGRATE = 0x4,
        SUM_STATFS = 0x8,
        OVERSTRIPING = 0x10,
        FLR = 0x20,
        WBC_INTENTS = 0x40,
        LOCK_CONVERT = 0x80,
        ARCHIVE_ID_ARRAY = 0x100,
        INC_XID = 0x200,
        SELINUX_POLICY = 0x400,
        LSOM = 0x800,
        PCC = 0x1000,
        CRUSH = 0x2000,
        ASYNC_DISCARD = 0x4000,
        ENCRYPT = 0x8000,
        FIDMAP = 0x1_0000,
        GETATTR_PFID = 0x2_0000,
        LSEEK = 0x4_0000,
        DOM_LVB = 0x8_0000,
        REP_MBITS = 0x10_0000,
        MODE_CONVERT = 0x20_0000,
        BATCH_RPC = 0x40_0000,
        PCCRO = 0x80_0000,
        MNE_TYPE = 0x100_0000,
        LOCK_CONTENTION = 0x200_0000,
        ATOMIC_OPEN_LOCK = 0x400_0000,
        ENCRYPT_NAME = 0x800_0000,
        DMV_IMP_INHERIT = 0x2000_0000,
        ENCRYPT_FID2PATH = 0x4000_0000,
        REPLAY_CREATE = 0x8000_0000,
        LARGE_NID = 0x1_0000_0000,
        COMPRESS = 0x2_0000_0000,
        UNALIGNED_DIO = 0x4_0000_0000,
        CONN_POLICY = 0x8_0000_0000,
        SPARSE = 0x10_0000_0000,
        MIRROR_ID_FIX = 0x20_0000_0000,
        UPDATE_LAYOUT = 0x40_0000_0000,
        READDIR_OPEN = 0x80_0000_0000,
        FLR_EC = 0x100_0000_0000,
        FLR_IMMED_MIRROR = 0x200_0000_0000,
        NO_APPEND = 0x400_0000_0000,
        FLR_EC_WR = 0x800_0000_0000,
        PERFSTATS = 0x1000_0000_0000,
    }
}

as_text!(Release);

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_data_of_a_management_client_are_known() {
        let mut bytes = hex("602000011041 00a0 3e391102");
        bytes.resize(80, 0);
        bytes.extend(hex("0000100001000000"));
        bytes.resize(ConnectData::LEN, 0);
        let data = ConnectData::decode(&bytes, Order::Little).unwrap();
        let flags = "BARRIER|VERSION|MGS_NIDLIST|AT|FULL20|IMP_RECOV|LVB_TYPE|BULK_MBITS|FLAGS2";
        let mut names: Vec<&str> = flags.split('|').collect();
        let text = data.flags.to_string();
        let mut found: Vec<&str> = text.split('|').collect();
        names.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, names);
        assert_eq!(data.flags2.to_string(), "REP_MBITS|LARGE_NID");
        assert_eq!(data.version.to_string(), "2.17.57.62");
        assert_eq!(data.version, Release::new(2, 17, 57, 62));
        let mut again = Vec::new();
        data.encode(&mut Writer::new(&mut again, Order::Little));
        assert_eq!(again, bytes);
    }

    #[test]
    fn shorter_data_of_old_peers_are_completed_with_zeros() {
        let bytes = [1; ConnectData::LEN_MIN];
        let data = ConnectData::decode(&bytes, Order::Little).unwrap();
        assert_eq!((data.bytes_max, data.modify_rpcs_max), (0x0101_0101_0101_0101, 0));
        let error = DecodeError::Short { field: "connect_data", missing: 1 };
        assert_eq!(ConnectData::decode(&bytes[1..], Order::Little), Err(error));
        assert!(ConnectData::decode(&[1; 500], Order::Big).is_ok());
    }

    proptest! {
        #[test]
        fn any_data_come_back(bytes in proptest::collection::vec(any::<u8>(), 72..200)) {
            let data = ConnectData::decode(&bytes, Order::Big).unwrap();
            for order in [Order::Little, Order::Big] {
                let mut again = Vec::new();
                data.encode(&mut Writer::new(&mut again, order));
                prop_assert_eq!(again.len(), ConnectData::LEN);
                prop_assert_eq!(ConnectData::decode(&again, order), Ok(data));
            }
        }
    }
}
