//! The portals of services, of their replies and of bulk data. Spec: ptlrpc-ldlm-mgs §2.1.

/// Replies to clients of object services, and of the service of updates.
pub const OST_REPLY: u32 = 4;
/// I/O on objects.
pub const OST_IO: u32 = 6;
/// The status of an object target.
pub const OST_CREATE: u32 = 7;
/// Data of objects.
pub const OST_BULK: u32 = 8;
/// Replies to clients of metadata services.
pub const MDS_REPLY: u32 = 10;
/// Metadata: the main service.
pub const MDS_REQUEST: u32 = 12;
/// I/O on data in the metadata target, and renames.
pub const MDS_IO: u32 = 13;
/// Data of metadata services: directory pages, indices, batches.
pub const MDS_BULK: u32 = 14;
/// Callbacks of locks: the service of clients.
pub const LDLM_CALLBACK_REQUEST: u32 = 15;
/// Replies to callbacks of locks.
pub const LDLM_CALLBACK_REPLY: u32 = 16;
/// Cancels of locks.
pub const LDLM_CANCEL_REQUEST: u32 = 17;
/// Replies to cancels of locks.
pub const LDLM_CANCEL_REPLY: u32 = 18;
/// Reading of directories, closes, plain attributes.
pub const MDS_READPAGE: u32 = 23;
/// Updates between targets, and batches.
pub const OUT: u32 = 24;
/// Replies to clients of the management service.
pub const MGS_REPLY: u32 = 25;
/// The management service.
pub const MGS_REQUEST: u32 = 26;
/// Objects: the main service.
pub const OST_REQUEST: u32 = 28;
/// Locations of sequences.
pub const FLD_REQUEST: u32 = 29;
/// Sequences for metadata.
pub const SEQ_METADATA: u32 = 30;
/// Sequences for data.
pub const SEQ_DATA: u32 = 31;
/// Sequences for servers.
pub const SEQ_CONTROLLER: u32 = 32;
/// Configuration of the management service, as data.
pub const MGS_BULK: u32 = 33;

/// Returns the portal of the replies to requests at `portal`; `None` if no requests arrive there.
pub fn reply_to(portal: u32) -> Option<u32> {
    Some(match portal {
        OST_REQUEST | OST_IO | OST_CREATE | SEQ_DATA | OUT => OST_REPLY,
        MDS_REQUEST | MDS_IO | MDS_READPAGE | FLD_REQUEST | SEQ_METADATA | SEQ_CONTROLLER => {
            MDS_REPLY
        }
        MGS_REQUEST => MGS_REPLY,
        LDLM_CANCEL_REQUEST => LDLM_CANCEL_REPLY,
        LDLM_CALLBACK_REQUEST => LDLM_CALLBACK_REPLY,
        _ => return None,
    })
}

/// Returns whether replies arrive at `portal`.
pub fn is_reply(portal: u32) -> bool {
    [OST_REPLY, MDS_REPLY, MGS_REPLY, LDLM_CANCEL_REPLY, LDLM_CALLBACK_REPLY].contains(&portal)
}

/// Returns whether data are transferred at `portal`.
pub fn is_bulk(portal: u32) -> bool {
    [OST_BULK, MDS_BULK, MGS_BULK].contains(&portal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_has_one_purpose() {
        for portal in 0..64 {
            let purposes = [reply_to(portal).is_some(), is_reply(portal), is_bulk(portal)];
            assert!(purposes.iter().filter(|&&purpose| purpose).count() <= 1, "{portal}");
            assert!(reply_to(portal).is_none_or(is_reply), "{portal}");
        }
    }
}
