//! The names of objects: of requests, of locks, and in the store. Spec: mdt-ost §2.2, §2.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::ResourceId;
use fulmar_lustre_wire::ost::OstId;
use fulmar_lustre_wire::seq::Seq;
use fulmar_store::ObjectId;

/// Returns the name of an object of a request: its sequence, which is 0 for an old one, and its number.
///
/// # Errors
/// EPROTO if no object can have this name, EBADF if its number is too large.
pub(crate) fn object(id: OstId) -> Result<ObjectId, Errno> {
    match any_object(id)? {
        ObjectId(_, 0) => Err(Errno::EPROTO),
        object => Ok(object),
    }
}

/// The same, for requests in which the number may be 0.
pub(crate) fn any_object(id: OstId) -> Result<ObjectId, Errno> {
    match id {
        OstId::Old(id) if id >= OstId::OLD_END => Err(Errno::EBADF),
        OstId::Old(id) => Ok(ObjectId(0, id)),
        OstId::Fid(fid) => match fid.old_object() {
            _ if fid.version != 0 => Err(Errno::EBADF),
            Some(id) => Ok(ObjectId(0, id)),
            None if is_sequence(fid.seq) => Ok(ObjectId(fid.seq, fid.oid.into())),
            None => Err(Errno::EPROTO),
        },
    }
}

fn is_sequence(seq: u64) -> bool {
    seq == Seq::ECHO.0 || (Seq::NORMAL.0..Seq::LOV_DEFAULT.0).contains(&seq)
}

/// Returns the FID of an object, in the form of a reply. Spec: mdt-ost §16.4.
pub(crate) fn fid(object: ObjectId, index: u16) -> Fid {
    match object {
        ObjectId(0, id) => OstId::Old(id).fid(index).unwrap_or_default(),
        ObjectId(seq, id) => Fid { seq, oid: id as u32, version: 0 },
    }
}

/// Returns the object whose locks have this name.
pub(crate) fn of_resource(resource: ResourceId) -> Result<ObjectId, Errno> {
    match resource.name {
        [id, 0, 0, 0] => object(OstId::Old(id)),
        [_, _, 0, 0] => object(OstId::Fid(resource.fid())),
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_one_name_in_the_store_however_it_is_called() {
        let old = OstId::Old(0x7_0000_0001);
        let idif = OstId::Fid(old.fid(2).unwrap());
        assert_eq!((object(old), object(idif)), (Ok(ObjectId(0, 0x7_0000_0001)), object(old)));
        assert_eq!(fid(object(old).unwrap(), 2), old.fid(2).unwrap());
        let new = Fid { seq: 0x2_4000_0400, oid: 0x4f, version: 0 };
        assert_eq!(object(OstId::Fid(new)), Ok(ObjectId(0x2_4000_0400, 0x4f)));
        for id in [old, idif, OstId::Fid(new)] {
            assert_eq!(of_resource(id.resource()), object(id));
        }
    }

    #[test]
    fn names_that_no_object_has_are_refused() {
        let fid = |seq, oid, version| OstId::Fid(Fid { seq, oid, version });
        assert_eq!(object(OstId::Old(0)), Err(Errno::EPROTO));
        assert_eq!(object(OstId::Old(1 << 48)), Err(Errno::EBADF));
        assert_eq!(object(fid(Seq::NORMAL.0, 1, 1)), Err(Errno::EBADF));
        for seq in [1, Seq::ROOT.0, Seq::LOV_DEFAULT.0] {
            assert_eq!(object(fid(seq, 1, 0)), Err(Errno::EPROTO), "{seq:#x}");
        }
    }
}
