//! Formats of requests for connections, objects, configuration, sequences and updates.
//! Spec: ptlrpc-ldlm-mgs §11.2, §11.3, §11.4, §11.7.

use super::ldlm::formats;
use super::*;
use crate::Opcode;

macro_rules! connect {
    ($opcode:ident) => {
        Format::new(
            Opcode::$opcode,
            &[&TARGET_UUID, &CLIENT_UUID, &CONNECTION, &CONNECT_DATA, &SELINUX_POLICY],
            &[&CONNECT_DATA],
        )
    };
}

/// A request about one object.
macro_rules! object {
    ($opcode:ident) => {
        Format::new(Opcode::$opcode, &[&OST_BODY, &CAPA], &[&OST_BODY])
    };
}

formats! {
    /// Connect to an object target.
    OST_CONNECT = connect!(OST_CONNECT);
    /// Connect to a metadata target.
    MDS_CONNECT = connect!(MDS_CONNECT);
    /// Connect to the management service.
    MGS_CONNECT = connect!(MGS_CONNECT);
    /// Disconnect from an object target.
    OST_DISCONNECT = Format::new(Opcode::OST_DISCONNECT, &[], &[]);
    /// Disconnect from a metadata target.
    MDS_DISCONNECT = Format::new(Opcode::MDS_DISCONNECT, &[], &[]);
    /// Disconnect from the management service.
    MGS_DISCONNECT = Format::new(Opcode::MGS_DISCONNECT, &[], &[]);
    /// Is the connection alive?
    PING = Format::new(Opcode::OBD_PING, &[], &[]);
    /// Start a security context.
    SEC_CTX_INIT = Format::new(Opcode::SEC_CTX_INIT, &[], &[]);
    /// Continue to start a security context.
    SEC_CTX_INIT_CONT = Format::new(Opcode::SEC_CTX_INIT_CONT, &[], &[]);
    /// End a security context.
    SEC_CTX_FINI = Format::new(Opcode::SEC_CTX_FINI, &[], &[]);
    /// Read an index.
    IDX_READ = Format::new(Opcode::OBD_IDX_READ, &[&INDEX_INFO], &[&INDEX_INFO]);

    /// Attributes of an object.
    OST_GETATTR = object!(OST_GETATTR);
    /// Change attributes of an object.
    OST_SETATTR = object!(OST_SETATTR);
    /// Cut off an object.
    OST_PUNCH = object!(OST_PUNCH);
    /// Allocate space of an object.
    OST_FALLOCATE = object!(OST_FALLOCATE);
    /// Write an object to disk.
    OST_SYNC = object!(OST_SYNC);
    /// Create objects in advance.
    OST_CREATE = Format::new(Opcode::OST_CREATE, &[&OST_BODY], &[&OST_BODY]);
    /// Find data or a hole.
    OST_SEEK = Format::new(Opcode::OST_SEEK, &[&OST_BODY], &[&OST_BODY]);
    /// Destroy objects.
    OST_DESTROY =
        Format::new(Opcode::OST_DESTROY, &[&OST_BODY, &LOCK_REQUEST, &CAPA], &[&OST_BODY]);
    /// Read from an object.
    OST_READ = Format::new(
        Opcode::OST_READ,
        &[&OST_BODY, &IO_OBJECTS, &NIOBUFS, &CAPA, &SHORT_IO],
        &[&OST_BODY, &SHORT_IO],
    );
    /// Write to an object.
    OST_WRITE = Format::new(
        Opcode::OST_WRITE,
        &[&OST_BODY, &IO_OBJECTS, &NIOBUFS, &CAPA, &SHORT_IO],
        &[&OST_BODY, &RESULTS],
    );
    /// The size and the use of an object target.
    OST_STATFS = Format::new(Opcode::OST_STATFS, &[], &[&STATFS]);
    /// A value by its key.
    OST_GET_INFO = Format::new(Opcode::OST_GET_INFO, &[&KEY], &[&VALUE]);
    /// The last object of a metadata target.
    OST_LAST_ID = Format::new(Opcode::OST_GET_INFO, &[&KEY], &[&LAST_ID]).variant("last_id");
    /// The last object of a sequence.
    OST_LAST_FID = Format::new(Opcode::OST_GET_INFO, &[&KEY, &LAST_FID], &[&LAST_FID])
        .variant("last_fid");
    /// The extents of an object.
    OST_FIEMAP = Format::new(Opcode::OST_GET_INFO, &[&FIEMAP_KEY, &FIEMAP], &[&FIEMAP])
        .variant("fiemap");
    /// Set a value by its key.
    OST_SET_INFO = Format::new(Opcode::OST_SET_INFO, &[&KEY, &VALUE], &[]);
    /// Give back granted space.
    OST_GRANT_SHRINK = Format::new(Opcode::OST_SET_INFO, &[&KEY, &OST_BODY], &[&OST_BODY])
        .variant("grant_shrink");
    /// Advice about access.
    OST_LADVISE =
        Format::new(Opcode::OST_LADVISE, &[&OST_BODY, &ADVICE_LIST, &ADVICE], &[&OST_BODY]);
    /// Quota.
    OST_QUOTACTL = Format::new(Opcode::OST_QUOTACTL, &[&QUOTACTL], &[&QUOTACTL, &QUOTA_ITER]);

    /// Register a target.
    TARGET_REG = Format::new(Opcode::MGS_TARGET_REG, &[&TARGET_INFO, &TARGET_NIDS], &[&TARGET_INFO]);
    /// Read nodemaps, or the NIDs of restarted targets.
    CONFIG_READ = Format::new(Opcode::MGS_CONFIG_READ, &[&CONFIG_BODY], &[&CONFIG_RESULT]);
    /// Set a parameter.
    MGS_SET_INFO = Format::new(Opcode::MGS_SET_INFO, &[&SEND_PARAM], &[&SEND_PARAM]);
    /// Open a log.
    LLOG_CREATE = Format::new(Opcode::LLOG_CREATE, &[&LLOG_BODY, &NAME, &MDT_BODY], &[&LLOG_BODY]);
    /// Read a block of a log.
    LLOG_NEXT_BLOCK =
        Format::new(Opcode::LLOG_NEXT_BLOCK, &[&LLOG_BODY], &[&LLOG_BODY, &LLOG_RECORDS]);
    /// Read a block of a log backwards.
    LLOG_PREV_BLOCK =
        Format::new(Opcode::LLOG_PREV_BLOCK, &[&LLOG_BODY], &[&LLOG_BODY, &LLOG_RECORDS]);
    /// Read the header of a log.
    LLOG_READ_HEADER = Format::new(Opcode::LLOG_READ_HEADER, &[&LLOG_BODY], &[&LLOG_HEADER]);

    /// Acquire or release quota.
    QUOTA_DQACQ = Format::new(Opcode::QUOTA_DQACQ, &[&QUOTA_BODY], &[&QUOTA_BODY]);
    /// Allocate sequences.
    SEQ_QUERY = Format::new(Opcode::SEQ_QUERY, &[&SEQ_OP, &SEQ_RANGE], &[&SEQ_RANGE]);
    /// The target of a sequence.
    FLD_QUERY = Format::new(Opcode::FLD_QUERY, &[&FLD_OP, &SEQ_RANGE], &[&SEQ_RANGE]);
    /// The targets of all sequences.
    FLD_READ = Format::new(Opcode::FLD_READ, &[&SEQ_RANGE], &[&SEQ_RANGES]);
    /// Updates from another target.
    OUT_UPDATE =
        Format::new(Opcode::OUT_UPDATE, &[&UPDATE_HEADER, &UPDATE_BUFFERS], &[&UPDATE_REPLY]);
    /// Control a check of the file system.
    LFSCK_NOTIFY = Format::new(Opcode::LFSCK_NOTIFY, &[&LFSCK_REQUEST], &[]);
    /// The state of a check of the file system.
    LFSCK_QUERY = Format::new(Opcode::LFSCK_QUERY, &[&LFSCK_REQUEST], &[&LFSCK_REPLY]);
    /// An unknown operation.
    UNKNOWN = Format::new(Opcode(0), &[], &[]);
}
