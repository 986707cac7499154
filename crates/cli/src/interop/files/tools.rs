//! Programs of others, where they are installed.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use super::check::{At, Outcome, Site, Wrong, equal, failed};

/// A multiple of all lengths of writes.
const SIZE: u64 = 12 << 20;

/// Data with checksums, written by one mount and verified by the other.
pub(super) fn fio(site: &Site) -> Outcome {
    if let Err(error) = Command::new("fio").arg("--version").output()
        && error.kind() == ErrorKind::NotFound
    {
        return Err(Wrong::NotRun("fio is not installed".to_owned()));
    }
    let at = site.sub("fio")?;
    for (kind, block) in [("randwrite", "16k"), ("write", "1m"), ("randwrite", "3k")] {
        let name = format!("--filename={kind}-{block}");
        let run = |directory: &Path, more: &[&str]| {
            let mut fio = Command::new("fio");
            // The directory of a file is the one that is named before it.
            fio.arg("--name=interop").arg(format!("--directory={}", directory.display()));
            fio.args([&name, "--ioengine=psync", "--verify=crc32c", "--verify_fatal=1"]);
            fio.args(["--verify_state_save=0", "--randseed=7", "--output-format=terse"]);
            fio.arg(format!("--size={SIZE}")).arg(format!("--rw={kind}"));
            fio.arg(format!("--bs={block}")).args(more);
            let output = fio.current_dir(std::env::temp_dir()).output().at("running fio")?;
            if output.status.success() {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&output.stderr);
            failed(format!("fio {kind} {block}: {}", text.trim()))
        };
        run(&at.one, &["--do_verify=1", "--end_fsync=1"])?;
        run(&at.two, &["--verify_only=1"])?;
        let found = std::fs::metadata(at.two.join(format!("{kind}-{block}"))).at("its file")?;
        equal("the length of its file", found.len(), SIZE)?;
    }
    Ok("3 files with checksums, verified by both mounts".to_owned())
}
