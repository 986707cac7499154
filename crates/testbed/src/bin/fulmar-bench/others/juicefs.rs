//! JuiceFS: a mount whose process keeps names in SQLite and data as objects.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_link::{Namespace, output};

use super::{create, installed};

/// `go install` does not build a module with replacements.
const HOW: &str = "build its sources of version 1.3.1 by go build (go mod download \
                   github.com/juicedata/juicefs@v1.3.1), or install a binary of its makers";

/// A file system.
pub(crate) struct JuiceFs {
    directory: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl JuiceFs {
    /// Makes one with its objects in a directory of this machine.
    pub(crate) fn local(namespace: &Namespace, directory: &Path) -> Result<Self, String> {
        let objects = directory.join("objects");
        create(&objects)?;
        let bucket = format!("{}/", objects.display());
        Self::make(namespace, directory, &["--storage", "file", "--bucket", &bucket], Vec::new())
    }

    /// Makes one with its objects on another host, by sftp as root: `bucket` is as `host:port:/path/`.
    pub(crate) fn by_sftp(
        namespace: &Namespace,
        directory: &Path,
        bucket: &str,
        key: &Path,
    ) -> Result<Self, String> {
        let words = ["--storage", "sftp", "--bucket", bucket, "--access-key", "root"];
        let key = ("SSH_PRIVATE_KEY_PATH", key.display().to_string());
        Self::make(namespace, directory, &words, vec![key])
    }

    fn make(
        namespace: &Namespace,
        directory: &Path,
        storage: &[&str],
        mut environment: Vec<(&'static str, String)>,
    ) -> Result<Self, String> {
        installed("juicefs", HOW)?;
        create(directory)?;
        // Where it keeps more than it is told to.
        environment.push(("HOME", directory.display().to_string()));
        let this = Self { directory: directory.to_owned(), environment };
        let mut command = this.command(namespace);
        command.args(["format", "--no-update"]).args(storage).arg(this.names()).arg("bench");
        output(&mut command).map_err(|error| error.to_string())?;
        Ok(this)
    }

    fn names(&self) -> String {
        format!("sqlite3://{}", self.directory.join("names.db").display())
    }

    fn command(&self, namespace: &Namespace) -> Command {
        let mut command = namespace.command_here("juicefs".as_ref());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the command that mounts it, and runs until it is unmounted. What is read comes from the objects, not
    /// from a copy on a disk of the client.
    pub(crate) fn mount(&self, namespace: &Namespace, at: &Path) -> Command {
        let mut command = self.command(namespace);
        command.args(["mount", "--no-usage-report", "--cache-size", "0", "--cache-dir"]);
        command.arg(self.directory.join("cache")).arg(self.names()).arg(at);
        command
    }
}
