#!/usr/bin/env bash
# install.sh : installs the binary with its names, pages, completion, units and configuration under PREFIX=/usr/local.
#
# DESTDIR= is a directory in which all of that is put, for packages. FULMAR= names a binary, so that none is built.
# SYSCONFDIR=/etc is for the configuration, and a file that is there stays as it is. ZSH= is where zsh finds
# completion, share/zsh/site-functions by default.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

prefix=${PREFIX:-/usr/local} etc=${SYSCONFDIR:-/etc}
if [ -z "${FULMAR:-}" ]; then
    scripts/need.sh rust build-essential
    cargo build --locked --profile dist -p fulmar
    FULMAR=${CARGO_TARGET_DIR:-target}/dist/fulmar
fi
root=${DESTDIR:-}$prefix
# Lustre's packages have these names in bin, sbin and share/man. Here they are below lib/fulmar, beside nothing else.
tools=(lnetctl lctl lst lfs)
private=$root/lib/fulmar

install -D -m 755 "$FULMAR" "$root/bin/fulmar"
install -d "$root/sbin" "$private/bin"
ln -sf ../bin/fulmar "$root/sbin/mount.fulmar"
for tool in "${tools[@]}"; do
    ln -sf ../../../bin/fulmar "$private/bin/$tool"
done
sed "s|/usr/lib/|$prefix/lib/|g" packaging/profile.sh | install -D -m 644 /dev/stdin "$private/profile.sh"

"$FULMAR" man --dir "$root/share/man" --tools "$private/share/man"

# Writes the completion of a tool: complete TOOL SHARE ZSH.
complete() {
    local bash=$2/bash-completion/completions fish=$2/fish/vendor_completions.d
    install -d "$bash" "$fish" "$3"
    "$FULMAR" completion bash "$1" >"$bash/$1"
    "$FULMAR" completion fish "$1" >"$fish/$1.fish"
    "$FULMAR" completion zsh "$1" >"$3/_$1"
}
complete fulmar "$root/share" "$root/${ZSH:-share/zsh/site-functions}"
for tool in "${tools[@]}"; do
    complete "$tool" "$private/share" "$private/share/zsh/site-functions"
done

units=$root/lib/systemd/system
install -d "$units"
for unit in packaging/*.service; do
    sed "s|/usr/bin/fulmar|$prefix/bin/fulmar|g; s|/etc/fulmar|$etc/fulmar|g" "$unit" |
        install -m 644 /dev/stdin "$units/${unit##*/}"
done

install -d "${DESTDIR:-}$etc/fulmar/mounts"
if [ ! -e "${DESTDIR:-}$etc/fulmar/node.yaml" ]; then
    install -m 644 packaging/node.yaml "${DESTDIR:-}$etc/fulmar/node.yaml"
fi

doc=$root/share/doc/fulmar
install -d "$doc/guide"
install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE "$doc"
install -m 644 docs/guide/*.md "$doc/guide"
