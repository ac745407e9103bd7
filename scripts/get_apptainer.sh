#!/bin/sh
# get_apptainer.sh PREFIX: puts a real Apptainer into PREFIX (bin/apptainer), for tests on Debian and Ubuntu.
#
# Debian has it in its unstable suite alone. Its package is unpacked, not installed, together with the C library that it
# was built for; apt's own state stays as it is. Run as root it also installs what Apptainer starts: squashfuse and
# mksquashfs. Needs apt-get, dpkg and a keyring of Debian.
set -eu

prefix=$(mkdir -p "$1" && cd "$1" && pwd)
if [ -x "$prefix/bin/apptainer" ]; then exec "$prefix/bin/apptainer" --version; fi

helpers="squashfuse squashfs-tools fuse3 fuse-overlayfs patchelf"
if [ "$(id -u)" = 0 ] && ! { command -v squashfuse_ll && command -v unsquashfs && command -v patchelf; } > /dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086 # a list
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $helpers > /dev/null
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
: > "$work/status"
mirror=$(sed -n 's/^URIs: *\([^ ]*debian\)\/* *$/\1/p; s/^deb .*\(https*:[^ ]*debian\)\/* .*/\1/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2> /dev/null | head -n 1)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} sid main" > "$work/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$work" \
        -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update
(cd "$work/debs" && apt download apptainer libc6 libseccomp2 libsqlite3-0)
for package in "$work"/debs/*.deb; do
    case $package in
        */apptainer*) dpkg -x "$package" "$prefix" ;;
        *) dpkg -x "$package" "$prefix/libs" ;;
    esac
done

libraries=$(dirname "$(ls "$prefix"/libs/usr/lib/*/libseccomp.so.2)")
starter=$(ls "$prefix"/usr/lib/*/apptainer/bin/starter)
for program in "$prefix/usr/bin/apptainer" "$starter"; do
    patchelf --set-interpreter "$(ls "$libraries"/ld-linux-*.so.* | head -n 1)" \
        --force-rpath --set-rpath "$libraries" "$program"
done
# It looks for its settings and its mount points beside its programs: the command and the starter at different places.
for place in usr usr/lib; do
    mkdir -p "$prefix/$place/etc" "$prefix/$place/var/lib/apptainer/mnt/session"
    cp -a "$prefix/etc/apptainer" "$prefix/$place/etc/"
done
mkdir -p "$prefix/bin"
ln -sf ../usr/bin/apptainer "$prefix/bin/apptainer"
"$prefix/bin/apptainer" --version
