//! Programs of others, where they are installed.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use super::check::{At, Outcome, Site, Wrong, failed};

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
            fio.args(["--name=interop", "--size=12m", "--ioengine=psync", "--verify=crc32c"]);
            fio.args([
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--randseed=7",
                "--output-format=terse",
                &name,
            ]);
            fio.arg(format!("--rw={kind}")).arg(format!("--bs={block}"));
            fio.arg("--directory").arg(directory).args(more);
            let output = fio.current_dir(std::env::temp_dir()).output().at("running fio")?;
            if output.status.success() {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&output.stderr);
            failed(format!("fio {kind} {block}: {}", text.trim()))
        };
        run(&at.one, &["--do_verify=1", "--end_fsync=1"])?;
        run(&at.two, &["--verify_only=1"])?;
    }
    Ok("3 files with checksums, verified by both mounts".to_owned())
}
