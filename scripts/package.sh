#!/usr/bin/env bash
# package.sh deb|rpm|image : makes a package of what install.sh installs, in target/packages, or an image with it.
#
# FULMAR= names a binary, so that none is built, and VERSION= another version than that of Cargo.toml. DEBFULLNAME= and
# DEBEMAIL= are those of who makes the package, as for Debian's own tools.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
packages=${CARGO_TARGET_DIR:-$PWD/target}/packages
mkdir -p "$packages"

missing() {
    echo "package: $1 is not installed, so that there is NO $2 package: $3" >&2
    exit 1
}

make_deb() {
    command -v dpkg-shlibdeps >/dev/null || missing dpkg-dev deb "apt-get install dpkg-dev"
    architecture=$(dpkg --print-architecture) revision=$version-1
    local root=$packages/deb maintainer="${DEBFULLNAME:-Fulmar} <${DEBEMAIL:-fulmar@localhost}>" depends size
    rm -rf "$root"
    DESTDIR=$root PREFIX=/usr ZSH=share/zsh/vendor-completions scripts/install.sh
    strip --strip-unneeded "$root/usr/bin/fulmar"
    # As Debian has them.
    local doc=$root/usr/share/doc/fulmar
    rm "$doc/LICENSE"
    install -m 644 packaging/deb/copyright "$doc/copyright"
    mv "$doc/CHANGELOG.md" "$doc/changelog"
    printf '%s\n' "fulmar ($revision) unstable; urgency=medium" "" "  * The release $version: see changelog.gz." "" \
        " -- $maintainer  $(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}")" >"$doc/changelog.Debian"
    gzip -9n "$doc"/changelog*
    find "$root" -path '*/man/*' -type f -exec gzip -9n {} +

    install -d "$root/debian"
    printf 'Source: fulmar\n\nPackage: fulmar\nArchitecture: any\n' >"$root/debian/control"
    depends=$(cd "$root" && dpkg-shlibdeps -O usr/bin/fulmar 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    rm -r "$root/debian"
    size=$(du -sk "$root" | cut -f1)
    install -d "$root/DEBIAN"
    sed "s|@VERSION@|$revision|; s|@ARCHITECTURE@|$architecture|; s|@SIZE@|$size|; s|@DEPENDS@|$depends|
        s|@MAINTAINER@|$maintainer|" packaging/deb/control >"$root/DEBIAN/control"
    install -m 755 packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN"
    echo /etc/fulmar/node.yaml >"$root/DEBIAN/conffiles"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group --build "$root" "$packages/fulmar_${revision}_$architecture.deb"
    rm -rf "$root"
}

make_rpm() {
    command -v rpmbuild >/dev/null || missing rpmbuild rpm "dnf install rpm-build, or apt-get install rpm"
    local top=$packages/rpm
    rm -rf "$top"
    mkdir -p "$top/SOURCES"
    git ls-files -z | tar --null --files-from - --transform "s|^|fulmar-$version/|" -czf "$top/SOURCES/fulmar-$version.tar.gz"
    # Rust comes from rustup as often as from a package, so that what is needed is checked by install.sh.
    rpmbuild -bb --quiet --nodeps --define "_topdir $top" --define "fulmar_version $version" \
        ${FULMAR:+--define "fulmar_binary $(realpath "$FULMAR")"} packaging/fulmar.spec
    find "$top/RPMS" -name '*.rpm' -exec mv -v {} "$packages" \;
    rm -rf "$top"
}

make_image() {
    local builder
    builder=$(command -v podman || command -v docker) || missing "podman or docker" image "apt-get install podman"
    make_deb
    local context=$packages/image
    rm -rf "$context"
    mkdir "$context"
    cp "$packages/fulmar_${revision}_$architecture.deb" "$context/fulmar.deb"
    "$builder" build --tag "fulmar:$version" ${BASE:+--build-arg "BASE=$BASE"} --file packaging/Containerfile "$context"
    rm -rf "$context"
}

case ${1:-} in
    deb | rpm | image) "make_$1" ;;
    *)
        echo "usage: package.sh deb|rpm|image" >&2
        exit 2
        ;;
esac
