#!/usr/bin/env bash
# packages.sh : installs the package for Debian in a clean root, beside one that has the files of Lustre's tools; runs a node,
# servers and a mount from its units; upgrades it under them; removes it, and requires that only the administrator's files are
# left. Then it makes the package with rpm, if rpmbuild is there, and installs and removes that too.
#
# It needs root, debootstrap and, the first time, the network. FULMAR= names a binary, so that none is built.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { echo "== packages: $1"; }
fail() { echo "packages: $1" >&2; exit 1; }

# Makes a package with the names that Lustre's own have: make_lustre DIRECTORY.
make_lustre() {
    local root=$1/lustre name
    for name in usr/sbin/{lnetctl,lctl,lst,mount.lustre} usr/bin/lfs usr/share/man/man8/{lnetctl,lctl,lst}.8.gz \
        usr/share/man/man1/lfs.1.gz usr/share/bash-completion/completions/{lctl,lfs} etc/lnet.conf; do
        install -D -m 755 <(printf '#!/bin/sh\necho Lustre\n') "$root/$name"
    done
    mkdir "$root/DEBIAN"
    printf '%s\n' "Package: lustre-client-utils" "Version: 2.17.0" "Architecture: all" "Maintainer: A test <test@localhost>" \
        "Description: names of Lustre's tools" >"$root/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$root" "$1/lustre.deb"
}

if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" -eq 0 ] || fail "clean roots need root: run it with sudo"
    scripts/need.sh debootstrap iproute2
    if [ -z "${FULMAR:-}" ]; then
        scripts/need.sh rust build-essential
        cargo build --locked --profile dist -p fulmar
        FULMAR=$(realpath "${CARGO_TARGET_DIR:-target}/dist/fulmar")
    fi
    packages=${CARGO_TARGET_DIR:-$PWD/target}/packages
    mkdir -p "$packages"
    base=$packages/root.tar
    if [ ! -e "$base" ]; then
        step "a clean root"
        # shellcheck disable=SC1091
        suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
        scratch=$(mktemp -d)
        if ! debootstrap --variant=minbase "$suite" "$scratch" >"$packages/debootstrap.log"; then
            tail -n 5 "$packages/debootstrap.log" >&2
            fail "debootstrap has no root: is there a network?"
        fi
        tar -C "$scratch" --one-file-system -cf "$base" .
        rm -rf "$scratch"
    fi
    step "the packages"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    # They are not kept: little compression.
    export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 FULMAR CARGO_TARGET_DIR=$scratch
    for version in 0.0.1 0.0.2; do VERSION=$version scripts/package.sh deb; done
    make_lustre "$scratch"
    mkdir "$scratch/root"
    tar -C "$scratch/root" -xf "$base"
    chmod 755 "$scratch/root"
    unshare --mount --net --pid --fork --kill-child --mount-proc scripts/packages.sh --inside "$scratch/root" "$scratch"
    if command -v rpmbuild >/dev/null; then
        step "the package with rpm"
        scripts/package.sh rpm
        mkdir -p "$scratch/rpm-root"
        rpm --root "$scratch/rpm-root" --initdb
        rpm --root "$scratch/rpm-root" --install --nodeps --noscripts "$scratch"/packages/fulmar-*.rpm
        "$scratch/rpm-root/usr/bin/fulmar" --version
        rpm --root "$scratch/rpm-root" --erase --noscripts fulmar
        left=$(find "$scratch/rpm-root" -name '*fulmar*')
        [ -z "$left" ] || fail "rpm leaves: $left"
    else
        echo "NOT RUN: the package with rpm: no rpmbuild (apt-get install rpm)"
    fi
    step "passed"
    exit
fi
root=$2 packages=$3/packages

ip link set lo up
ip address add 10.0.0.1/24 dev lo
ip address add 10.0.0.2/24 dev lo
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs run "$root/run"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
install -m 755 scripts/units.sh "$root/run/systemctl"

inside() { chroot "$root" env PATH=/run:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# Everything but the records of dpkg: kinds, modes, owners, names, links and contents.
files() {
    inside find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o \
        -printf '%p %y %m %u %g %l\n' | sort
    inside find /etc /usr /srv /mnt -xdev -type f -exec md5sum {} + | sort
}
install_deb() {
    cp "$1" "$root/run/package.deb"
    inside dpkg --force-confold -i /run/package.deb
    rm "$root/run/package.deb"
}
lustre_is_as_it_was() {
    [ "$(inside /usr/sbin/lnetctl)" = Lustre ] || fail "lnetctl of Lustre is gone"
    [ -z "$(inside dpkg --verify lustre-client-utils)" ] || fail "files of Lustre's package have changed"
}
# The programs of a package that run in the root.
running() {
    for process in /proc/[0-9]*; do
        # shellcheck disable=SC2053
        [[ $(readlink "$process/exe" 2>/dev/null) != */usr/bin/fulmar$1 ]] || echo "${process#/proc/}"
    done
}

step "beside Lustre's tools"
# A machine with systemd has these directories.
mkdir -p "$root"/etc/systemd/system/{multi-user,remote-fs}.target.wants
install_deb "$3/lustre.deb"
files >"$3/before"
install_deb "$packages"/fulmar_0.0.1-*.deb
lustre_is_as_it_was
inside fulmar --version
for tool in lnetctl lctl lst lfs; do
    inside "/usr/lib/fulmar/bin/$tool" --help >/dev/null || [ $tool = lst ] || fail "$tool does not answer by its name"
done
[ -z "$(running '*')" ] || fail "the installation has started something"

step "a node, as its unit runs it"
sed -i 's|# networks: .*|networks: tcp(10.0.0.1)|' "$root/etc/fulmar/node.yaml"
inside systemctl enable --now fulmar-node
inside fulmar lnetctl ping 10.0.0.1@tcp
[ "$(stat -c %u "/proc/$(running '')")" = 61184 ] || fail "the node runs as root"
inside systemctl disable --now fulmar-node

step "servers and a mount, as their units run them"
inside fulmar mkfs --mgs --mdt --fsname lustre /srv/mdt0
inside fulmar mkfs --ost --fsname lustre --index 0 --mgsnode 10.0.0.1@tcp /srv/ost0
inside systemctl enable --now fulmar-target@srv-mdt0 fulmar-target@srv-ost0
inside fulmar target list
printf 'node:\n    networks: tcp(10.0.0.2)\n' >"$root/etc/fulmar/client.yaml"
printf 'SOURCE=10.0.0.1@tcp:/lustre\nOPTIONS=config=/etc/fulmar/client.yaml\n' >"$root/etc/fulmar/mounts/mnt"
if [ -e /dev/fuse ]; then
    inside systemctl enable --now fulmar-mount@mnt
    inside sh -c 'echo kept >/mnt/file && sync && fulmar lfs df -h /mnt'
else
    echo "NOT RUN: the mount of a package: no /dev/fuse"
fi

step "an upgrade"
before=$(running '')
install_deb "$packages"/fulmar_0.0.2-*.deb
lustre_is_as_it_was
[ "$(running ' (deleted)')" = "$before" ] || fail "the upgrade has ended what runs"
grep -q 'tcp(10.0.0.1)' "$root/etc/fulmar/node.yaml" || fail "the upgrade has changed node.yaml"
inside systemctl restart fulmar-server
if [ -e /dev/fuse ]; then
    [ "$(inside cat /mnt/file)" = kept ] || fail "the file is gone"
    inside systemctl restart fulmar-mount@mnt
    [ "$(inside cat /mnt/file)" = kept ] || fail "the file is gone"
fi
[ -z "$(running ' (deleted)')" ] || fail "something of the old version runs after the restart"

step "removal"
if [ -e /dev/fuse ]; then inside systemctl stop fulmar-mount@mnt; fi
inside systemctl stop fulmar-server
[ -z "$(running '*')" ] || fail "something runs after its stop"
inside dpkg --remove fulmar
lustre_is_as_it_was
[ -e "$root/etc/fulmar/node.yaml" ] || fail "the removal has taken the configuration"
inside dpkg --purge fulmar
files >"$3/after"
# What the administrator has made, and nothing else, is there in addition; nothing is missing.
if diff "$3/before" "$3/after" | grep '^[<>]' |
    grep -vE '^> (/srv/(mdt0|ost0)|[0-9a-f]{32}  /srv/(mdt0|ost0)/|/etc/fulmar |/etc/fulmar/mounts |([0-9a-f]{32}  )?/etc/fulmar/(client.yaml|mounts/mnt))'; then
    fail "the purge leaves that"
fi
if inside fulmar --version 2>/dev/null; then fail "fulmar is still there"; fi
