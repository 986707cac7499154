//! GlusterFS: a volume of one brick.

use std::path::Path;
use std::process::Command;

use fulmar_link::Namespace;

use super::{Daemons, create, installed};

const HOW: &str = "apt-get install glusterfs-server glusterfs-client";
const VOLUME: &str = "bench";

/// Serves a new volume at an address of a host, with its brick below `directory`.
pub(crate) fn serve(
    namespace: &Namespace,
    address: &str,
    directory: &Path,
) -> Result<Daemons, String> {
    installed("glusterd", HOW)?;
    installed("glusterfs", HOW)?;
    let brick = directory.join("brick");
    create(&brick)?;
    let script = format!(
        "for at in /run /var/lib/glusterd /var/log/glusterfs; do mount -t tmpfs tmpfs $at; done\n\
         mkdir /run/gluster\n\
         glusterd --no-daemon &\n\
         g() {{ gluster --mode=script volume \"$@\"; }}\n\
         left=100\n\
         until g list >/dev/null 2>&1; do left=$((left - 1)); [ $left -gt 0 ]; sleep 0.2; done\n\
         g create {VOLUME} {address}:{} force\n\
         g start {VOLUME}\n\
         echo served\n\
         wait\n",
        brick.display()
    );
    Daemons::start(namespace, &script)
}

/// Returns the command that mounts the volume, and runs until it is unmounted.
pub(crate) fn mount(namespace: &Namespace, address: &str, log: &Path, at: &Path) -> Command {
    let mut command = namespace.command_here("glusterfs".as_ref());
    command
        .args(["--no-daemon", &format!("--volfile-server={address}")])
        .args([&format!("--volfile-id={VOLUME}"), "--log-file"])
        .args([log, at]);
    command
}
