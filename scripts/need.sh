#!/usr/bin/env bash
# need.sh PACKAGE... : ensures that the programs of these Debian packages are installed.
#
# Missing packages are named, then installed with apt (as root, or by sudo without a password).
# Otherwise the script says what to do and fails. `rust` is a recent cargo, which apt does not
# have.
set -euo pipefail

# Prints the program that is needed from a package.
program() {
    case $1 in
        build-essential) echo cc ;;
        iproute2) echo ip ;;
        procps) echo sysctl ;;
        openssh-sftp-server) echo /usr/lib/openssh/sftp-server ;;
        *) echo "$1" ;;
    esac
}

check_rust() {
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2) || true
    if [ "$(printf '%s\n' "$wanted" "${have:-0}" | sort -V | head -n1)" != "$wanted" ]; then
        echo "need: Rust $wanted or later is needed; installed: ${have:-none}." \
            "Install it from https://rustup.rs, or add its bin directory to the PATH." >&2
        exit 1
    fi
}

# Not every PATH has these.
PATH=$PATH:/usr/sbin:/sbin
missing=()
for package in "$@"; do
    if [ "$package" = rust ]; then
        check_rust
    elif ! command -v "$(program "$package")" >/dev/null; then
        missing+=("$package")
    fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "need: these packages are missing: ${missing[*]}" >&2
by_hand="need: install them and try again: sudo apt-get install ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "need: no apt-get found; install them with the package manager of your system" >&2
    exit 1
elif [ "$(id -u)" -eq 0 ]; then
    as_root=(env)
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n env)
else
    echo "need: neither root nor a sudo without a password" >&2
    echo "$by_hand" >&2
    exit 1
fi

apt() {
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >&2
}
echo "need: installing ${missing[*]}" >&2
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
    echo "$by_hand" >&2
    exit 1
fi
