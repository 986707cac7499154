//! The names of all buffers.

use super::FieldOf;
use super::bulk::BatchRequests;
use crate::acl::Acl;
use crate::connect::ConnectData;
use crate::directory::DirectoryPage;
use crate::fld::{FldOp, SeqRanges};
use crate::index::{IndexInfo, IndexPage};
use crate::layout::Layout;
use crate::ldlm::{Intent, LayoutIntent, LockReply, LockRequest, OstLvb, QuotaLvb};
use crate::lfsck::{LfsckReply, LfsckRequest};
use crate::llog::{LogBlock, LogCookie, LogHeader, LogRequest};
use crate::mdt::{
    BatchBuffer, BatchHeader, BatchReply, ChangelogClear, CloseData, Fid2PathKey, Fid2PathReply,
    HsmCurrentAction, HsmProgress, HsmRequest, HsmStateSet, HsmUserItem, HsmUserState, IoEpoch,
    MdtBody, Reint, Statfs, SwapLayouts,
};
use crate::mgs::{ConfigRead, ConfigReadReply, NidTable, SetParam, TargetInfo, TargetNids};
use crate::ost::{Advice, AdviceList, Fiemap, FiemapKey, IoObject, Niobuf, Obdo};
use crate::quota::{QuotaBody, QuotaControl};
use crate::seq::{SeqOp, SeqRange};
use crate::update::{UpdateBuffer, UpdateHeader, UpdateReply};
use crate::{Bytes, Fid, Handle, Key, List, Name, Names, Status, Uuid};

macro_rules! fields {
    ($($(#[$meta:meta])* $name:ident: $content:ty = $text:literal),+ $(,)?) => {
        $( $(#[$meta])* pub const $name: FieldOf<$content> = FieldOf::new($text); )+
    };
}

fields! {
    /// The place of a capability, which is always empty.
    CAPA: Bytes = "capa",

    /// The target of a connect.
    TARGET_UUID: Uuid = "target_uuid",
    /// The client of a connect.
    CLIENT_UUID: Uuid = "client_uuid",
    /// The client's object for callbacks.
    CONNECTION: Handle = "connection",
    /// What is requested, and what is granted.
    CONNECT_DATA: ConnectData = "connect_data",
    /// The policy of SELinux on the client.
    SELINUX_POLICY: Name = "selinux_policy",

    /// The key of a value, with its NUL.
    KEY: Key = "key",
    /// The value of a key.
    VALUE: Bytes = "value",
    /// The length of the wanted value.
    VALUE_LEN: u32 = "value_len",
    /// An object identifier, the value of `last_id`.
    LAST_ID: u64 = "last_id",
    /// A FID, in the request for `last_fid` and its value.
    LAST_FID: Fid = "last_fid",
    /// A file whose path is wanted.
    FID2PATH_KEY: Fid2PathKey = "fid2path_key",
    /// The path of a file.
    FID2PATH: Fid2PathReply = "fid2path",
    /// An object whose extents are wanted.
    FIEMAP_KEY: FiemapKey = "fiemap_key",
    /// The extents of an object.
    FIEMAP: Fiemap = "fiemap",
    /// Which records of the changelog a user no longer needs.
    CHANGELOG_CLEAR: ChangelogClear = "changelog_clear",

    /// A lock that is requested, or locks that are given up.
    LOCK_REQUEST: LockRequest = "lock_request",
    /// A lock that is granted.
    LOCK_REPLY: LockReply = "lock_reply",
    /// The operation that the lock is for.
    INTENT: Intent = "intent",
    /// What part of a layout is needed.
    LAYOUT_INTENT: LayoutIntent = "layout_intent",
    /// The value block of a lock of an unknown kind.
    LVB: Bytes = "lvb",
    /// The attributes of an object.
    OST_LVB: OstLvb = "ost_lvb",
    /// The state of a quota.
    QUOTA_LVB: QuotaLvb = "quota_lvb",
    /// What a server says with a glimpse.
    GLIMPSE: Bytes = "glimpse",

    /// Attributes of a file.
    MDT_BODY: MdtBody = "mdt_body",
    /// A change of metadata.
    REINT: Reint = "reint",
    /// The open file of a close.
    IO_EPOCH: IoEpoch = "io_epoch",
    /// A name in a directory, or of a log.
    NAME: Name = "name",
    /// The new name of a file.
    TARGET_NAME: Name = "target_name",
    /// The content of a symbolic link.
    SYMLINK: Name = "symlink",
    /// The layout of a new file, or a default layout of a directory; or only room for a layout.
    NEW_LAYOUT: Layout = "new_layout",
    /// The value or the names of extended attributes.
    EA_DATA: Bytes = "ea_data",
    /// The layout of a file or directory, or the content of a symbolic link.
    LAYOUT: Layout = "layout",
    /// The default layout of directories.
    DEFAULT_LAYOUT: Layout = "default_layout",
    /// The access control list of a file.
    ACL: Acl = "acl",
    /// Historic.
    LOG_COOKIES: List<LogCookie> = "log_cookies",
    /// The name of the attribute of a security context.
    SECURITY_NAME: Name = "security_name",
    /// A security context.
    SECURITY: Bytes = "security",
    /// An encryption context.
    ENCRYPTION: Bytes = "encryption",
    /// Data that come with an open.
    INLINE_DATA: Bytes = "inline_data",
    /// Names of extended attributes.
    XATTR_NAMES: Names = "xattr_names",
    /// Values of extended attributes, one after the other.
    XATTR_VALUES: Bytes = "xattr_values",
    /// The lengths of the values of extended attributes.
    XATTR_LENS: List<u32> = "xattr_lens",
    /// The intent of a close.
    CLOSE_DATA: CloseData = "close_data",
    /// The mirrors of a close.
    MIRRORS: List<u32> = "mirrors",
    /// The size and the use of a target.
    STATFS: Statfs = "statfs",
    /// The exchange of two layouts.
    SWAP_LAYOUTS: SwapLayouts = "swap_layouts",
    /// Files.
    FIDS: List<Fid> = "fids",
    /// A result for each file or for each range.
    RESULTS: List<Status> = "results",
    /// Several requests.
    BATCH: BatchHeader = "batch",
    /// Where the requests of a batch are.
    BATCH_BUFFERS: List<BatchBuffer> = "batch_buffers",
    /// The replies of a batch.
    BATCH_REPLY: BatchReply = "batch_reply",
    /// The archive state of a file.
    HSM_STATE: HsmUserState = "hsm_state",
    /// A change of the archive state.
    HSM_STATE_SET: HsmStateSet = "hsm_state_set",
    /// The archive action under way.
    HSM_CURRENT: HsmCurrentAction = "hsm_current",
    /// Progress of an archive action.
    HSM_PROGRESS: HsmProgress = "hsm_progress",
    /// Archive actions.
    HSM_REQUEST: HsmRequest = "hsm_request",
    /// The files of archive actions.
    HSM_ITEMS: List<HsmUserItem> = "hsm_items",
    /// More about archive actions.
    HSM_DATA: Bytes = "hsm_data",
    /// Archives.
    HSM_ARCHIVES: List<u32> = "hsm_archives",

    /// Attributes of an object.
    OST_BODY: Obdo = "ost_body",
    /// The object of a read or a write.
    IO_OBJECTS: List<IoObject> = "io_objects",
    /// The ranges of a read or a write.
    NIOBUFS: List<Niobuf> = "niobufs",
    /// Data of a short read or write.
    SHORT_IO: Bytes = "short_io",
    /// Advice about an object.
    ADVICE_LIST: AdviceList = "advice_list",
    /// Each advice.
    ADVICE: List<Advice> = "advice",
    /// A question about quota, and its answer.
    QUOTACTL: QuotaControl = "quotactl",
    /// Quotas of several identifiers.
    QUOTA_ITER: Bytes = "quota_iter",
    /// Quota that is acquired or released.
    QUOTA_BODY: QuotaBody = "quota_body",

    /// A target and its state.
    TARGET_INFO: TargetInfo = "target_info",
    /// The NIDs of a target.
    TARGET_NIDS: TargetNids = "target_nids",
    /// Which configuration is wanted.
    CONFIG_BODY: ConfigRead = "config_body",
    /// What was transferred.
    CONFIG_RESULT: ConfigReadReply = "config_result",
    /// A parameter.
    SEND_PARAM: SetParam = "send_param",
    /// Which log, and which part of it.
    LLOG_BODY: LogRequest = "llog_body",
    /// The header of a log.
    LLOG_HEADER: LogHeader = "llog_header",
    /// Records of a log.
    LLOG_RECORDS: LogBlock = "llog_records",
    /// Which index, and which part of it.
    INDEX_INFO: IndexInfo = "index_info",

    /// What is wanted of sequences.
    SEQ_OP: SeqOp = "seq_op",
    /// What is wanted of locations.
    FLD_OP: FldOp = "fld_op",
    /// A range of sequences.
    SEQ_RANGE: SeqRange = "seq_range",
    /// Ranges of sequences.
    SEQ_RANGES: SeqRanges = "seq_ranges",
    /// Updates.
    UPDATE_HEADER: UpdateHeader = "update_header",
    /// Where the updates are.
    UPDATE_BUFFERS: List<UpdateBuffer> = "update_buffers",
    /// Results of updates.
    UPDATE_REPLY: UpdateReply = "update_reply",
    /// A check of the file system.
    LFSCK_REQUEST: LfsckRequest = "lfsck_request",
    /// The state of a check of the file system.
    LFSCK_REPLY: LfsckReply = "lfsck_reply",

    /// Bulk data: a part of a directory.
    DIRECTORY_PAGES: List<DirectoryPage> = "directory_pages",
    /// Bulk data: pages of an index.
    INDEX_PAGES: List<IndexPage> = "index_pages",
    /// Bulk data: the NIDs of targets.
    NID_TABLE: NidTable = "nid_table",
    /// Bulk data: the requests of a batch.
    BATCH_REQUESTS: BatchRequests = "batch_requests",
}
