#!/usr/bin/env bash
# bench.sh [FAMILY] : measures Fulmar and its baselines on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iperf3 iproute2 haproxy
# The peers of `fulmar mount`; who is not there is left out, with a line NOT RUN.
scripts/need.sh sshfs openssh-sftp-server || true
# Families in network namespaces and mounts need root, and print NOT RUN without it.
export PATH=$PATH:/usr/sbin:/sbin
cargo build --locked --profile dist -p fulmar-testbed -p fulmar
directory=${CARGO_TARGET_DIR:-target}
exec "$directory/dist/fulmar-bench" run --results "$directory/bench/results.json" ${1:+--only "$1"}
