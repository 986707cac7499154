#!/usr/bin/env bash
# interop.sh NID [OPTION...] : checks the interoperation with a real Lustre node.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${1:-}" ]; then
    cat >&2 <<'TEXT'
interop: name a node that runs Lustre's kernel modules: make interop NID=10.0.0.1@tcp

The node must reach this machine and be reached from it on TCP port 988. Run as root (or with
CAP_NET_BIND_SERVICE), so that connections come from a privileged port, as kernel nodes require.
The node is pinged and discovered, and adds this machine as a peer: the list of NIDs of this machine is
pushed to it, discovery may be switched off and on here to make it push its own, and it must drop
one message. Its files and settings are not changed.
TEXT
    exit 2
fi
scripts/need.sh rust build-essential
exec cargo run --locked --release -p fulmar -- interop "$@"
