//! What may be different from the recorded servers, and why. An entry that explains nothing fails the
//! tests.

/// How a field may be different.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// In any way.
    Any,
    /// Both are 0, or both are not.
    Set,
    /// The recorded value, and ours.
    Values(&'static str, &'static str),
    /// Ours, whatever was recorded.
    Own(&'static str),
}

/// A difference that has a reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownDifference {
    /// The operation, `*` at the end for the rest; all if it is empty.
    pub(crate) operation: &'static str,
    /// The field. `[]` stands for any place in a list, `*` at the end for the rest.
    pub(crate) field: &'static str,
    pub(crate) rule: Rule,
    pub(crate) reason: &'static str,
}

const fn any(
    operation: &'static str,
    field: &'static str,
    reason: &'static str,
) -> KnownDifference {
    KnownDifference { operation, field, rule: Rule::Any, reason }
}

const fn set(
    operation: &'static str,
    field: &'static str,
    reason: &'static str,
) -> KnownDifference {
    KnownDifference { operation, field, rule: Rule::Set, reason }
}

const fn values(
    operation: &'static str,
    field: &'static str,
    (recorded, own): (&'static str, &'static str),
    reason: &'static str,
) -> KnownDifference {
    KnownDifference { operation, field, rule: Rule::Values(recorded, own), reason }
}

const fn missing(
    operation: &'static str,
    field: &'static str,
    reason: &'static str,
) -> KnownDifference {
    KnownDifference { operation, field, rule: Rule::Own("-"), reason }
}

const NUMBERS: &str = "each server numbers by itself";
const CLOCKS: &str = "each server has its clock, and is asked at another time";
const POOLS: &str = "our servers do not limit how many locks a client keeps";
const SPACE: &str = "the storage has another size";
const LDISKFS: &str = "a property of the file system under the recorded MDT";
const ONE_MDT: &str = "our file systems have one MDT, so directories have no layouts";
const DIRECTORY: &str =
    "the lock is taken before it is known that there is no layout: it does no harm";
const LAZY: &str = "our MDT says what it knows of the size, and that it is not exact";
const UNREAD: &str = "a kernel OST has not read the attributes that the change does not need";
const RACE: &str = "the recorded reply was made after the lock had been granted, which needs time";
const MANY_CHANGES: &str = "our MDT grants as many changes as a client makes over a long link";
const OFFER: &str = "the recorded MDT offers what ours has not";
const RELEASE: &str = "each release has its number";
const ORDER: &str = "attributes have no order";
const SENDER: &str = "a kernel server says which of its threads calls, which clients ignore";
const UNCLEARED: &str = "a kernel MDT says what it does not mark as valid, and clients ignore";
const ENTRIES: &str = "our MDT does not send the entries of a directory with its open";
/// What our MDT sends in the place of data.
const NO_DATA: &str = r#""00000000000000000000000000000000""#;
const MEDIUM: &str = "whether space without data is a hole depends on the medium";

/// All of them.
pub(crate) const KNOWN: &[KnownDifference] = &[
    set("", "body.transno", NUMBERS),
    values("MDS_DISCONNECT", "body.transno", ("\"0x100000002\"", "\"0x0\""), NUMBERS),
    any("", "body.last_committed", NUMBERS),
    any("", "body.pre_versions", "our MDT gives no versions: replays do not compare them"),
    any("", "body.lock_limit", POOLS),
    any("", "body.lock_volume", POOLS),
    // Callbacks.
    any("", "body.last_xid", NUMBERS),
    any("", "body.match_bits", NUMBERS),
    any("LDLM_BL_CALLBACK", "body.status", SENDER),
    any("LDLM_CP_CALLBACK*", "body.status", SENDER),
    any("LDLM_GL_CALLBACK*", "body.status", SENDER),
    any("", "head.reply_room", "our servers have room for more"),
    // Attributes of files.
    any("", "mdt_body.atime", CLOCKS),
    any("", "mdt_body.mtime", CLOCKS),
    any("", "mdt_body.ctime", CLOCKS),
    any("", "mdt_body.btime", CLOCKS),
    any("", "mdt_body.max_md_size", "the largest layout that somebody has seen before"),
    values("", "mdt_body.flags", ("524288", "0"), LDISKFS),
    values("", "mdt_body.flags", ("4096", "0"), LDISKFS),
    values("", "mdt_body.flags", ("532480", "0"), LDISKFS),
    values("", "mdt_body.size", ("12288", "4096"), LDISKFS),
    values("", "mdt_body.blocks", ("24", "8"), LDISKFS),
    any("MDS_REINT SETATTR", "mdt_body.size", LAZY),
    any("MDS_REINT SETATTR", "mdt_body.blocks", LAZY),
    any("MDS_REINT SETATTR", "mdt_body.valid", LAZY),
    any("MDS_REINT UNLINK", "mdt_body.size", LAZY),
    any("MDS_REINT UNLINK", "mdt_body.blocks", LAZY),
    any("MDS_REINT UNLINK", "mdt_body.valid", LAZY),
    any("MDS_SYNC", "mdt_body.valid", LAZY),
    any("LDLM_ENQUEUE OPEN", "mdt_body.valid", "our MDT says the largest layout with each open"),
    any("MDS_CLOSE", "mdt_body.*", "a kernel MDT says nothing of a file whose last name has gone"),
    // The root, and other directories.
    any("LDLM_ENQUEUE GETATTR", "default_layout.*", ONE_MDT),
    any("LDLM_ENQUEUE GETATTR", "layout", ONE_MDT),
    values("LDLM_ENQUEUE GETATTR", "mdt_body.ea_size", ("48", "0"), ONE_MDT),
    any("LDLM_ENQUEUE GETATTR", "mdt_body.valid", ONE_MDT),
    values(
        "LDLM_ENQUEUE GETATTR",
        "lock_reply.lock.policy.bits",
        (r#"["LOOKUP","UPDATE","PERM"]"#, r#"["LOOKUP","UPDATE","LAYOUT","PERM"]"#),
        DIRECTORY,
    ),
    values(
        "LDLM_ENQUEUE GETATTR",
        "lock_reply.lock.policy.bits",
        (r#"["UPDATE","LAYOUT","PERM"]"#, r#"["LOOKUP","UPDATE","LAYOUT","PERM"]"#),
        "a file without a name is not looked up: the part does no harm",
    ),
    values("LDLM_ENQUEUE GETXATTR", "mdt_body.acl_size", ("72", "24"), ONE_MDT),
    values("LDLM_ENQUEUE GETXATTR", "mdt_body.ea_size", ("24", "12"), ONE_MDT),
    any("LDLM_ENQUEUE GETXATTR", "xattr_lens", ORDER),
    any("LDLM_ENQUEUE GETXATTR", "xattr_names", ORDER),
    any("LDLM_ENQUEUE GETXATTR", "xattr_values", ORDER),
    any("MDS_GET_INFO fid2path", "fid2path.room", "a kernel MDT does not clear the memory before"),
    any("SEQ_QUERY", "seq_range.*", NUMBERS),
    any("FLD_QUERY", "seq_range.end", NUMBERS),
    any("MDS_STATFS", "statfs.*", SPACE),
    any("OST_STATFS", "statfs.*", SPACE),
    // The parts of files on the MDT.
    values("LDLM_ENQUEUE *", "layout.parts[].layout.objects", ("-", "[]"), UNCLEARED),
    missing("LDLM_ENQUEUE *", "layout.parts[].layout.objects[].generation", UNCLEARED),
    missing("LDLM_ENQUEUE *", "layout.parts[].layout.objects[].id", UNCLEARED),
    missing("LDLM_ENQUEUE *", "layout.parts[].layout.objects[].ost", UNCLEARED),
    values("OST_WRITE", "ost_body.atime", ("1795184578", "0"), UNCLEARED),
    // An open of a directory.
    KnownDifference {
        operation: "LDLM_ENQUEUE OPEN",
        field: "inline_data",
        rule: Rule::Own(NO_DATA),
        reason: ENTRIES,
    },
    values("LDLM_ENQUEUE OPEN", "body.status", ("0", "301"), ENTRIES),
    values(
        "LDLM_ENQUEUE OPEN",
        "lock_reply.flags",
        (r#"["LOCK_CHANGED","HAS_INTENT"]"#, "[]"),
        ENTRIES,
    ),
    values(
        "LDLM_ENQUEUE OPEN",
        "lock_reply.handle",
        ("\"0x5b78e99153708816\"", "\"0x0\""),
        ENTRIES,
    ),
    values("LDLM_ENQUEUE OPEN", "lock_reply.lock.granted", (r#""PR""#, r#""0x0""#), ENTRIES),
    values("LDLM_ENQUEUE OPEN", "lock_reply.lock.requested", (r#""PR""#, r#""0x0""#), ENTRIES),
    missing("LDLM_ENQUEUE OPEN", "lock_reply.lock.policy.*", ENTRIES),
    values("LDLM_ENQUEUE OPEN", "lock_reply.lock.policy.halves", ("-", "[0,0]"), ENTRIES),
    values("LDLM_ENQUEUE OPEN", "lock_reply.lock.policy.words", ("-", "[0,0,0]"), ENTRIES),
    values(
        "LDLM_ENQUEUE OPEN",
        "lock_reply.lock.resource.id",
        (r#""[0x200000401:0xac:0x0].0x0""#, r#""[0x0:0x0:0x0].0x0""#),
        ENTRIES,
    ),
    values(
        "LDLM_ENQUEUE OPEN",
        "lock_reply.lock.resource.kind",
        (r#""IBITS""#, r#""0x0""#),
        ENTRIES,
    ),
    // Objects.
    values("LDLM_ENQUEUE EXTENT", "lock_reply.lock.granted", (r#""PW""#, r#""0x0""#), RACE),
    any("LDLM_ENQUEUE EXTENT", "lock_reply.lock.policy.end", RACE),
    any("", "ost_lvb.atime", "a kernel OST has a time of the last access if no client sent one"),
    any("OST_SETATTR", "ost_body.mode", UNREAD),
    set("", "ost_body.ctime", CLOCKS),
    set("", "ost_body.mtime", CLOCKS),
    any("OST_SEEK", "ost_body.size", MEDIUM),
    // The configuration.
    any("", "connect_data.version", RELEASE),
    any("MDS_CONNECT", "connect_data.flags*", OFFER),
    any("", "connect_data.checksums", "each node offers the checksums that it computes fast"),
    any("LLOG_READ_HEADER", "llog_header.time", CLOCKS),
    any("LLOG_CREATE", "llog_body.id.object", NUMBERS),
    any("LLOG_NEXT_BLOCK", "llog_body.id.object", NUMBERS),
    values("MDS_CONNECT", "connect_data.ea_size_max", ("65536", "0"), UNCLEARED),
    values("MDS_CONNECT", "connect_data.modify_rpcs_max", ("8", "64"), MANY_CHANGES),
    values("MDS_CONNECT", "connect_data.instance", ("2", "1"), NUMBERS),
    any("LLOG_NEXT_BLOCK", "llog_records[].body.marker.marker.created", CLOCKS),
    any("LLOG_NEXT_BLOCK", "llog_records[].body.marker.marker.version", RELEASE),
];
