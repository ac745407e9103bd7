#!/usr/bin/env bash
# A container image to build tasks on: Debian with git, Python, and what tasks in other languages need.
#
#   scripts/make_base_image.sh [NAME]          makes NAME (default: swe-sdk-base:debian12), and prints it
#   swe-sdk validate mini --provider docker --base-image swe-sdk-base:debian12
#
# It is put together from Debian's packages, so no registry is needed. PACKAGES=a,b,c adds some; SUITE is another Debian.
# It takes about a minute and 1.5 GB, and needs mmdebstrap (apt-get install mmdebstrap) and a Docker engine.
set -euo pipefail

name=${1:-swe-sdk-base:debian12}
packages=python3,python3-venv,git,ca-certificates,procps,patch
packages+=,make,gcc,g++,libc6-dev,cmake,nodejs,cargo,golang-go,bats${PACKAGES:+,$PACKAGES}

for program in mmdebstrap docker; do
    command -v "$program" > /dev/null || { echo "$0: $program is not installed" >&2; exit 1; }
done

# Named only once it is whole: a name must never stand for half an image.
image=$(mmdebstrap --quiet --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "${SUITE:-bookworm}" - | docker import -)
docker tag "$image" "$name"
echo "$name"
