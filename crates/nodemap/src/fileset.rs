//! The directories that clients of a nodemap may mount.

use fulmar_base::Errno;

use crate::nodemap::Nodemap;

/// A directory that clients may mount, with what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fileset {
    /// Its path, which begins with a slash.
    pub path: String,
    /// Whether nothing may be changed in it.
    pub is_read_only: bool,
}

/// The longest path of a fileset in bytes.
pub(crate) const PATH_MAX: usize = 4095;
/// The most filesets of a nodemap.
pub(crate) const COUNT_MAX: u32 = 256;

impl Fileset {
    /// Returns whether a path is the directory or below it.
    fn contains(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.path);
        !self.path.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Nodemap {
    /// Returns the directory that a client gets that wants to mount `path`, which is empty for the root of the
    /// file system, and whether it may change nothing there.
    ///
    /// # Errors
    /// EACCES if it may not mount that, ENAMETOOLONG.
    pub fn root_of(&self, path: &str) -> Result<Fileset, Errno> {
        if self.filesets.is_empty() {
            return Ok(Fileset { path: path.to_owned(), is_read_only: false });
        }
        let primary = self.filesets.get(&0);
        if path.is_empty() {
            return primary.cloned().ok_or(Errno::EACCES);
        }
        let nearest = |path: &str| {
            let all = self.filesets.values().filter(|fileset| fileset.contains(path));
            all.max_by_key(|fileset| fileset.path.len()).cloned()
        };
        if let Some(found) = nearest(path) {
            return Ok(Fileset { path: path.to_owned(), ..found });
        }
        // What a client names is below its root.
        let primary = primary.ok_or(Errno::EACCES)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let full = format!("{}{slash}{path}", primary.path);
        if full.len() > PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let is_read_only = nearest(&full).is_some_and(|fileset| fileset.is_read_only);
        Ok(Fileset { path: full, is_read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fileset(path: &str, is_read_only: bool) -> Fileset {
        Fileset { path: path.to_owned(), is_read_only }
    }

    #[test]
    fn clients_see_their_part_of_the_file_system() {
        let mut nodemap = Nodemap::new("site");
        assert_eq!(nodemap.root_of("/any"), Ok(fileset("/any", false)));
        nodemap.filesets.insert(0, fileset("/site", false));
        nodemap.filesets.insert(3, fileset("/site/old", true));
        nodemap.filesets.insert(4, fileset("/common", true));
        assert_eq!(nodemap.root_of(""), Ok(fileset("/site", false)));
        assert_eq!(nodemap.root_of("/x"), Ok(fileset("/site/x", false)));
        assert_eq!(nodemap.root_of("/site/x"), Ok(fileset("/site/x", false)));
        assert_eq!(nodemap.root_of("/site2"), Ok(fileset("/site/site2", false)));
        assert_eq!(nodemap.root_of("/old"), Ok(fileset("/site/old", true)));
        assert_eq!(nodemap.root_of("/common/y"), Ok(fileset("/common/y", true)));
        assert_eq!(nodemap.root_of(&"/x".repeat(2048)), Err(Errno::ENAMETOOLONG));
        nodemap.filesets.remove(&0);
        assert_eq!(nodemap.root_of(""), Err(Errno::EACCES));
        assert_eq!(nodemap.root_of("/elsewhere"), Err(Errno::EACCES));
    }
}
