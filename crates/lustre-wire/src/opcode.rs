//! Operations, and the services that they belong to.

use fulmar_wire::wire_enum;

wire_enum! {
    /// What a request asks for. Historic numbers, which nothing sends, are not named.
    /// Spec: ptlrpc-ldlm-mgs §10.
    pub struct Opcode(u32) {
        /// Attributes of an object.
        OST_GETATTR = 1,
        /// Change attributes of an object.
        OST_SETATTR = 2,
        /// Read from an object.
        OST_READ = 3,
        /// Write to an object.
        OST_WRITE = 4,
        /// Create objects in advance.
        OST_CREATE = 5,
        /// Destroy objects.
        OST_DESTROY = 6,
        /// A value by its key.
        OST_GET_INFO = 7,
        /// Connect to an object target.
        OST_CONNECT = 8,
        /// Disconnect from an object target.
        OST_DISCONNECT = 9,
        /// Cut off or clear a part of an object.
        OST_PUNCH = 10,
        /// Size and use of an object target.
        OST_STATFS = 13,
        /// Write an object to disk.
        OST_SYNC = 16,
        /// Set a value by its key.
        OST_SET_INFO = 17,
        /// Quota of an object target.
        OST_QUOTACTL = 19,
        /// Advice about access to an object.
        OST_LADVISE = 21,
        /// Allocate space of an object.
        OST_FALLOCATE = 22,
        /// Find data or a hole.
        OST_SEEK = 23,
        /// Attributes by FID.
        MDS_GETATTR = 33,
        /// Attributes by name.
        MDS_GETATTR_NAME = 34,
        /// Close a file.
        MDS_CLOSE = 35,
        /// Change metadata.
        MDS_REINT = 36,
        /// Read a directory.
        MDS_READPAGE = 37,
        /// Connect to a metadata target.
        MDS_CONNECT = 38,
        /// Disconnect from a metadata target.
        MDS_DISCONNECT = 39,
        /// The FID of the root.
        MDS_GET_ROOT = 40,
        /// Size and use of a metadata target or of the file system.
        MDS_STATFS = 41,
        /// Write a file's metadata to disk.
        MDS_SYNC = 44,
        /// Set a value by its key.
        MDS_SET_INFO = 46,
        /// Quota of the file system.
        MDS_QUOTACTL = 48,
        /// Extended attributes.
        MDS_GETXATTR = 49,
        /// A value by its key.
        MDS_GET_INFO = 53,
        /// The archive state of a file.
        MDS_HSM_STATE_GET = 54,
        /// Change the archive state of a file.
        MDS_HSM_STATE_SET = 55,
        /// The archive action under way for a file.
        MDS_HSM_ACTION = 56,
        /// Progress of an archive action.
        MDS_HSM_PROGRESS = 57,
        /// Request archive actions.
        MDS_HSM_REQUEST = 58,
        /// Register an archive agent.
        MDS_HSM_CT_REGISTER = 59,
        /// Unregister an archive agent.
        MDS_HSM_CT_UNREGISTER = 60,
        /// Exchange the layouts of two files.
        MDS_SWAP_LAYOUTS = 61,
        /// Remove files by FID.
        MDS_RMFID = 62,
        /// Several requests in one.
        MDS_BATCH = 63,
        /// Set the data version of an archived file.
        MDS_HSM_DATA_VERSION = 64,
        /// Request a lock, perhaps with an intent.
        LDLM_ENQUEUE = 101,
        /// Give up a part of a lock.
        LDLM_CONVERT = 102,
        /// Give up locks.
        LDLM_CANCEL = 103,
        /// A lock blocks another one.
        LDLM_BL_CALLBACK = 104,
        /// A lock was granted.
        LDLM_CP_CALLBACK = 105,
        /// The value block of a lock is wanted.
        LDLM_GL_CALLBACK = 106,
        /// Set a value of a client by its key.
        LDLM_SET_INFO = 107,
        /// Connect to the management service.
        MGS_CONNECT = 250,
        /// Disconnect from the management service.
        MGS_DISCONNECT = 251,
        /// Register a target.
        MGS_TARGET_REG = 253,
        /// Set a parameter.
        MGS_SET_INFO = 255,
        /// Read nodemaps, or the NIDs of restarted targets.
        MGS_CONFIG_READ = 256,
        /// Is the connection alive?
        OBD_PING = 400,
        /// Read an index.
        OBD_IDX_READ = 403,
        /// Open a log.
        LLOG_CREATE = 501,
        /// Read a block of a log.
        LLOG_NEXT_BLOCK = 502,
        /// Read the header of a log.
        LLOG_READ_HEADER = 503,
        /// Read a block of a log backwards.
        LLOG_PREV_BLOCK = 508,
        /// Acquire or release quota.
        QUOTA_DQACQ = 601,
        /// Allocate sequences.
        SEQ_QUERY = 700,
        /// Start a security context.
        SEC_CTX_INIT = 801,
        /// Continue to start a security context.
        SEC_CTX_INIT_CONT = 802,
        /// End a security context.
        SEC_CTX_FINI = 803,
        /// The target of a sequence.
        FLD_QUERY = 900,
        /// The targets of all sequences.
        FLD_READ = 901,
        /// Updates from another target.
        OUT_UPDATE = 1000,
        /// Control a check of the file system.
        LFSCK_NOTIFY = 1101,
        /// The state of a check of the file system.
        LFSCK_QUERY = 1102,
    }
}

impl Opcode {
    /// Returns whether the request opens a connection to a target.
    pub fn is_connect(self) -> bool {
        matches!(self, Self::OST_CONNECT | Self::MDS_CONNECT | Self::MGS_CONNECT)
    }

    /// Returns whether the request closes a connection to a target.
    pub fn is_disconnect(self) -> bool {
        matches!(self, Self::OST_DISCONNECT | Self::MDS_DISCONNECT | Self::MGS_DISCONNECT)
    }

    /// Returns the service whose version a request must carry. Spec: ptlrpc-ldlm-mgs §5.
    pub fn service(self) -> Service {
        match self {
            _ if self.is_connect() || self.is_disconnect() => Service::OBD,
            Self::SEQ_QUERY | Self::FLD_QUERY | Self::FLD_READ => Service::MDS,
            Self::QUOTA_DQACQ | Self::OUT_UPDATE => Service::MDS,
            Self(0..=32) => Service::OST,
            Self(33..=100) => Service::MDS,
            Self(101..=249) => Service::DLM,
            Self(250..=399) => Service::MGS,
            Self(500..=599) => Service::LOG,
            Self(_) => Service::OBD,
        }
    }
}

wire_enum! {
    /// The service that an operation belongs to: the upper half of the version of a request.
    pub struct Service(u16) {
        /// None, as in every reply.
        NONE = 0,
        /// Connections, pings, indices.
        OBD = 1,
        /// Metadata, sequences, locations.
        MDS = 2,
        /// Objects.
        OST = 3,
        /// Locks.
        DLM = 4,
        /// Logs.
        LOG = 5,
        /// Configuration.
        MGS = 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_belongs_to_a_service() {
        assert_eq!(Opcode::OST_CONNECT.service(), Service::OBD);
        assert_eq!(Opcode::OST_WRITE.service(), Service::OST);
        assert_eq!(Opcode::MDS_REINT.service(), Service::MDS);
        assert_eq!(Opcode::MGS_DISCONNECT.service(), Service::OBD);
        assert_eq!(Opcode::LLOG_CREATE.service(), Service::LOG);
        assert_eq!(Opcode::SEQ_QUERY.service(), Service::MDS);
    }
}
