#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that packages.txt lists in the given sections, if they are missing.
# Usage: tools/deps.sh SECTION...
set -euo pipefail
cd "$(dirname "$0")/.."

wanted() {
	for section in "$@"; do
		grep -qxF "[$section]" packages.txt || {
			echo "deps: packages.txt has no section [$section]" >&2
			return 1
		}
		awk -v section="[$section]" '
			/^[[:space:]]*(#|$)/ { next }
			/^\[/ { inside = $1 == section; next }
			inside { print $1 }' packages.txt
	done
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

[ $# -gt 0 ] || { echo "usage: tools/deps.sh SECTION..." >&2; exit 2; }
packages=$(wanted "$@")
if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; needed are (by their Debian names):" "$packages"
	exit 0
fi
missing=()
for package in $packages; do
	installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "deps: missing: ${missing[*]}" >&2
	echo "deps: install them as root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
"${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}" >/dev/null; }
