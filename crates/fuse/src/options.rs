//! The options of `-o`.

use std::path::PathBuf;

use fulmar_client::AccessTimes;

/// How a file system is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Which reads change the time of the last access.
    pub access_times: AccessTimes,
    /// What is written is on disk before the write ends.
    pub sync: bool,
    /// Whom locks of files are for.
    pub locks: FileLocks,
    /// Device files are not opened.
    pub no_dev: bool,
    /// Files give no program the rights of their owner.
    pub no_suid: bool,
    /// Programs are not run.
    pub no_exec: bool,
    /// Attributes of users, `user.*`, are not supported.
    pub no_user_xattr: bool,
    /// The kernel keeps no names: each is looked up each time. What is mounted below stays then, and is not
    /// unmounted when the names above it are dropped.
    pub no_lookup_cache: bool,
    /// What the kernel keeps of the data of files.
    pub data_cache: DataCache,
    /// Data are at the servers when a file is closed: who closes it waits for that.
    pub flushes_on_close: bool,
    /// Other users than the one who mounts have access too; always if root mounts.
    pub allow_other: bool,
    /// The directory of the file system that is the root of the mount.
    pub subdirectory: Option<String>,
    /// The file with the configuration of the client's node.
    pub config: Option<PathBuf>,
}

/// Whom the locks of `flock` and `fcntl` are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileLocks {
    /// All clients.
    #[default]
    All,
    /// This mount only.
    Local,
    /// There are none.
    Refused,
}

/// What the kernel keeps of the data of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataCache {
    /// Pages of files that are mapped, until such a file is opened again or its attributes have changed.
    Off,
    /// Pages of files that are mapped, as long as locks protect them.
    #[default]
    Maps,
    /// These, and in the same way the data of files that are open to be read only.
    Locks,
}

/// An option that there is not.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionError(String);

/// What `mount` passes to a helper, or a kernel's client knows, and means nothing here.
const IGNORED: [&str; 28] = [
    "rw",
    "defaults",
    "_netdev",
    "auto",
    "noauto",
    "nofail",
    "nouser",
    "user",
    "users",
    "owner",
    "group",
    "diratime",
    "nodiratime",
    // Targets that do not answer are left out of the sums, as with this option.
    "lazystatfs",
    "nolazystatfs",
    "lruresize",
    "nolruresize",
    "32bitapi",
    "no32bitapi",
    "verbose",
    "noverbose",
    "user_fid2path",
    "nouser_fid2path",
    "always_ping",
    "statfs_project",
    "nostatfs_project",
    "acl",
    "noencrypt",
];
/// The same with a value.
const IGNORED_VALUES: [&str; 3] = ["x-", "comment=", "retry="];

impl Options {
    /// Adds the options of a list that commas separate.
    ///
    /// # Errors
    /// For the first one that there is not.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        for word in list.split(',').filter(|word| !word.is_empty()) {
            match word {
                "ro" => self.read_only = true,
                "atime" | "relatime" => self.access_times = AccessTimes::Relative,
                "strictatime" => self.access_times = AccessTimes::Always,
                "noatime" => self.access_times = AccessTimes::Never,
                "sync" => self.sync = true,
                "async" => self.sync = false,
                "flock" => self.locks = FileLocks::All,
                "localflock" => self.locks = FileLocks::Local,
                "noflock" => self.locks = FileLocks::Refused,
                "dev" => self.no_dev = false,
                "nodev" => self.no_dev = true,
                "suid" => self.no_suid = false,
                "nosuid" => self.no_suid = true,
                "exec" => self.no_exec = false,
                "noexec" => self.no_exec = true,
                "user_xattr" => self.no_user_xattr = false,
                "nouser_xattr" => self.no_user_xattr = true,
                "lookupcache=all" => self.no_lookup_cache = false,
                "lookupcache=none" => self.no_lookup_cache = true,
                "datacache=maps" => self.data_cache = DataCache::Maps,
                "datacache=locks" => self.data_cache = DataCache::Locks,
                "datacache=none" => self.data_cache = DataCache::Off,
                "flush=close" => self.flushes_on_close = true,
                "flush=later" => self.flushes_on_close = false,
                "allow_other" => self.allow_other = true,
                _ if IGNORED.contains(&word) => {}
                _ if IGNORED_VALUES.iter().any(|start| word.starts_with(start)) => {}
                _ => match word.split_once('=') {
                    Some(("subdir", path)) => {
                        self.subdirectory = Some(path.trim_matches('/').to_owned());
                    }
                    Some(("config", file)) => self.config = Some(file.into()),
                    _ => return Err(OptionError(word.to_owned())),
                },
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "there is no mount option {:?}: those that there are are ro, rw, relatime, strictatime, noatime, sync, async, dev, nodev, suid, \
             nosuid, exec, noexec, flock, localflock, noflock, user_xattr, nouser_xattr, \
             lookupcache=all, lookupcache=none, datacache=maps, datacache=locks, datacache=none, flush=close, flush=later, allow_other, subdir=DIR, config=FILE, and those of fstab",
            self.0
        )
    }
}

impl std::error::Error for OptionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_fstab_and_of_lustre_are_known() {
        let mut options = Options::default();
        options.add("rw,_netdev,noatime,localflock,subdir=/a/b/,x-systemd.automount").unwrap();
        let expected = Options {
            access_times: AccessTimes::Never,
            locks: FileLocks::Local,
            subdirectory: Some("a/b".to_owned()),
            ..Options::default()
        };
        assert_eq!(options, expected);
        options.add("config=/etc/lnet.conf").unwrap();
        assert_eq!(options.config, Some("/etc/lnet.conf".into()));
        options.add("lazystatfs,retry=3,noflock,nosuid,lookupcache=none,datacache=locks").unwrap();
        assert_eq!((options.locks, options.no_suid), (FileLocks::Refused, true));
        assert_eq!((options.no_lookup_cache, options.data_cache), (true, DataCache::Locks));
        assert_eq!(Options::default().data_cache, DataCache::Maps);
        assert!(!options.sync);
        options.add("sync").unwrap();
        assert!(options.sync);
        options.add("flush=close").unwrap();
        assert!(options.flushes_on_close && !Options::default().flushes_on_close);
        let error = options.add("ro,encrypt").unwrap_err().to_string();
        assert!(error.starts_with("there is no mount option \"encrypt\": those"), "{error}");
        assert!(options.read_only);
    }
}
