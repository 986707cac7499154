#!/usr/bin/env bash
# interop.sh NID MGS:/NAME : checks the interoperation with a real Lustre node, a file system, or both; either may be empty.
set -euo pipefail
cd "$(dirname "$0")/.."

nid=${1:-} mgs=${2:-}
if [ -z "$nid$mgs" ]; then
    cat >&2 <<'TEXT'
interop: name a node that runs Lustre's kernel modules, or a file system of such nodes:

    make interop NID=10.0.0.1@tcp
    make interop LUSTRE_MGS=10.0.0.1@tcp:/lustre          INTEROP_SECONDS=600 for long random checks

The nodes must reach this machine and be reached from it on TCP port 988. Run as root (or with
CAP_NET_BIND_SERVICE), so that connections come from a privileged port, as kernel nodes require.

NID: the node is pinged and discovered, and adds this machine as a peer: the list of NIDs of this machine is
pushed to it, discovery may be switched off and on here to make it push its own, and it must drop
one message. Its files and settings are not changed.

LUSTRE_MGS: the file system is mounted twice by FUSE, which needs root and /dev/fuse. Names, modes, links, renames,
data, attributes and locks are checked in a new directory of its root, then random operations by both mounts. The
directory is removed at the end.
TEXT
    exit 2
fi
scripts/need.sh rust build-essential
cargo build --locked --release -p fulmar
status=0
if [ -n "$nid" ]; then target/release/fulmar interop "$nid" || status=$?; fi
if [ -n "$mgs" ]; then
    target/release/fulmar interop "$mgs" --seconds "${INTEROP_SECONDS:-20}" || status=$?
fi
exit "$status"
