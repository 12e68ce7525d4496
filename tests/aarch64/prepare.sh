#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the root directory that the preset aarch64 compiles and runs with, once: Debian's packages of what the [build]
# and [check] sections have of libraries, unpacked in build/aarch64-root. Needs no root.
# Usage: tests/aarch64/prepare.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/aarch64-root
packages="libc6 libc6-dev linux-libc-dev libgcc-s1 libibverbs1 libibverbs-dev librdmacm-dev libjansson4 libjansson-dev
	libpcre2-8-0 libpcre2-dev libcmocka0 libcmocka-dev libssl3"

[ ! -e "$root/complete" ] || exit 0
command -v apt-get >/dev/null || {
	echo "aarch64: no apt-get here to download Debian's packages with" >&2
	exit 1
}
rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
touch "$root/apt/status"
# Separate lists: apt of this system is not changed.
cat >"$root/apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Dir::State "$root/apt";
Dir::State::status "$root/apt/status";
Dir::Cache "$root/apt";
END
export APT_CONFIG=$root/apt/conf
apt-get update -qq
# shellcheck disable=SC2086
(cd "$root/apt" && apt-get download -qq $packages)
for package in "$root"/apt/*.deb; do
	dpkg-deb -x "$package" "$root"
done
rm -rf "$root/apt"
touch "$root/complete"
