#!/usr/bin/env bash
# lab.sh INSTALLED SHARED NAME=ADDRESS,ADDRESS... : hosts in network namespaces, each with the files of this machine, those
# installed over them, and what it writes itself. Lines of standard input are names of hosts, on which the commands of
# SHARED/block are run. The answer is a line with the command that has failed, or an empty one, and SHARED/output.
# It runs in namespaces of its own, which end with it.
set -euo pipefail
installed=$1 shared=$2
shift 2
scratch=$shared/scratch
mkdir -p "$scratch"
mount -t tmpfs -o size=2g lab "$scratch"
mount -t tmpfs run /run
mkdir /run/netns

declare -A shells
cables=0
for spec in "$@"; do
    name=${spec%%=*} addresses=${spec#*=} interfaces=0
    ip netns add "$name"
    ip -n "$name" link set lo up
    for address in ${addresses//,/ }; do
        bridge=net-${address%.*} cable=cable$((cables += 1)) interface=eth$((interfaces++))
        ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge
        ip link set "$bridge" up
        ip link add "$cable" type veth peer name "$interface" netns "$name"
        ip link set "$cable" master "$bridge" up
        ip -n "$name" address add "$address/24" dev "$interface"
        ip -n "$name" link set "$interface" up
    done

    own=$scratch/$name root=$scratch/$name/root
    mkdir -p "$own"/{upper,work,root}
    mount -t overlay host -o "lowerdir=/,upperdir=$own/upper,workdir=$own/work" "$root"
    # All but the binary, which is large, is copied.
    tar -C "$installed" --exclude ./labs --exclude ./usr/bin/fulmar -c . | tar -C "$root" -x
    touch "$root/usr/bin/fulmar"
    mount --bind "$installed/usr/bin/fulmar" "$root/usr/bin/fulmar"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    for directory in run tmp mnt srv; do mount -t tmpfs "$directory" "$root/$directory"; done
    mkfifo "$own/go" "$root/run/done"
    cat >"$root/run/shell" <<'END'
set -E -o pipefail
trap 'failed=${failed:-$BASH_COMMAND}' ERR
while read -r _; do
    failed=""
    . /run/block >/run/output 2>&1 </dev/null
    echo "${failed//$'\n'/ }" >/run/done
done
END
    nsenter --net="/run/netns/$name" unshare --mount --uts bash -c \
        'hostname "$1" && mount -t sysfs sys "$0/sys" && exec chroot "$0" env -i HOME=/run TERM=dumb \
            PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash --norc /run/shell' "$root" "$name" <"$own/go" >&2 &
    exec {shell}>"$own/go"
    shells[$name]=$shell
done

while read -r name; do
    root=$scratch/$name/root
    cp "$shared/block" "$root/run/block"
    echo go >&"${shells[$name]}"
    read -r failed <"$root/run/done"
    cp "$root/run/output" "$shared/output"
    echo "$failed"
done
