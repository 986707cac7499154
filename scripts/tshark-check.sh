#!/usr/bin/env bash
# tshark-check.sh FILE [PORT] : fails unless tshark reads LNet messages in FILE, all well formed.
#
# PORT is the acceptor's, if it is not 988. tshark adds an expert item "Capture:..." of the group
# Malformed to most PUTs, also of kernel nodes: it only means that tshark does not know the payload
# of that portal. The real failures of its dissectors are listed here. tshark 4 does not support
# headers with large NIDs (IPv6, version 4), and misreads those of kernel nodes too.
set -euo pipefail

file=${1:?"usage: tshark-check.sh FILE [PORT]"}
port=${2:-988}
broken='_ws.malformed.expert || _ws.malformed.dissector_bug || _ws.malformed.reassembly
    || lnet.msg_type > 4
    || (lnet.ksm_type && lnet.ksm_type != 0xc0 && lnet.ksm_type != 0xc1)'

read_lnet() {
    tshark -r "$file" -d "tcp.port==$port,lnet" -Y "$1" 2>/dev/null
}

bad=$(read_lnet "lnet && ($broken)")
if [ -n "$bad" ]; then
    echo "tshark finds malformed LNet messages in $file:" >&2
    head -n 20 <<<"$bad" >&2
    exit 1
fi
count=$(read_lnet lnet | wc -l)
if [ "$count" -eq 0 ]; then
    echo "tshark finds no LNet message in $file (port $port)" >&2
    exit 1
fi
echo "tshark reads $count frames with LNet messages in $file, none malformed"
