//! Extended attributes of files.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::XattrFlags;

use super::filesystem::FileSystem;
use crate::files::caller::Caller;
use crate::files::operations::Op;

impl FileSystem {
    /// Returns an extended attribute. One round trip for all of a file.
    ///
    /// # Errors
    /// ENODATA if there is none.
    pub async fn get_xattr(
        &self,
        caller: &Caller,
        file: Fid,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.counted(
            Op::GetXattr,
            move |cx| async move { cx.get_xattr(&caller, file, &name).await },
        )
        .await
    }

    /// Returns the names of all extended attributes. One round trip.
    ///
    /// # Errors
    /// What the server says.
    pub async fn list_xattrs(&self, caller: &Caller, file: Fid) -> Result<Vec<Vec<u8>>, Errno> {
        let caller = caller.clone();
        let names = self
            .counted(Op::ListXattr, move |cx| async move { cx.list_xattrs(&caller, file).await })
            .await?;
        Ok(names.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    /// Sets an extended attribute. One round trip. Access control lists are attributes.
    ///
    /// # Errors
    /// EEXIST or ENODATA as the flags demand, and what the server says.
    pub async fn set_xattr(
        &self,
        caller: &Caller,
        file: Fid,
        name: &[u8],
        (value, flags): (&[u8], XattrFlags),
    ) -> Result<(), Errno> {
        let (caller, name, value) = (caller.clone(), name.to_vec(), Some((value.to_vec(), flags)));
        self.counted(Op::SetXattr, move |cx| async move {
            cx.set_xattr(&caller, file, &name, value).await
        })
        .await
    }

    /// Removes an extended attribute. One round trip.
    ///
    /// # Errors
    /// ENODATA if there is none, and what the server says.
    pub async fn remove_xattr(&self, caller: &Caller, file: Fid, name: &[u8]) -> Result<(), Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.counted(Op::RemoveXattr, move |cx| async move {
            cx.set_xattr(&caller, file, &name, None).await
        })
        .await
    }
}
