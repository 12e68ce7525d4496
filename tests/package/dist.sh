#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is installed without root: dist.sh CASE BUILD_DIR CMAKE VERSION GLIBC. Exit 77 = skipped.
#   tarball  unpacked in a directory of any name, by a user who has nothing
#   wheel    pip install in an empty virtual environment, by the same user
# Each: two commands to a checked all-reduce over its own plugin; `anynet env` for a shell; nothing outside.
set -euo pipefail
export LC_ALL=C
case=${1:?} build=${2:?} cmake=${3:?} version=${4:?} glibc=${5?}
export PATH=/usr/bin:/bin:/usr/sbin:/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

# As a user: if this is root, as another one.
user=()
if [ "$(id -u)" = 0 ]; then
	user=(setpriv --reuid 4711 --regid 4711 --clear-groups)
fi
# as_user COMMAND...: in an empty home
as_user() {
	(cd "$work/home" && "${user[@]}" env -i HOME="$work/home" PATH="$PATH" NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp "$@") \
		>"$work/log" 2>&1 || {
		cat "$work/log"
		fail "$*"
	}
}

# verified DIR: the last command has checked its results, with the plugin in that directory
verified() {
	grep -qF 'Out of bounds values : 0 OK' "$work/log" || fail "anynet perf: not verified"
	grep -qF "from $1/libnccl-net" "$work/log" || {
		cat "$work/log"
		fail "anynet perf took another plugin than that in $1"
	}
}

# used TOOL PLUGIN_DIR
used() {
	as_user "$1" perf -e 64K -f 64 -n 2 -w 1
	verified "$2"
	as_user "$1" run "$1" perf -e 64K -f 64 -n 2 -w 1 --net libnccl-net-anynet.so
	verified "$2"
	# shellcheck disable=SC2016
	as_user sh -c 'eval "$("$1" env)" && "$1" perf -e 64K -f 64 -n 2 -w 1 --net libnccl-net.so' sh "$1"
	verified "$2"
	as_user "$1" devices
	as_user "$1" explain --list
}

tarball() {
	local file home=$work/home dir
	file=$(echo "$work"/dist/anynet-*-linux-*.tar.gz)
	dir=$home/$(basename "$file" .tar.gz)
	as_user tar xzf "$file"
	used "$dir/bin/anynet" "$dir/lib"
	mkdir "$home/moved"
	mv "$dir" "$home/moved/it's here"
	used "$home/moved/it's here/bin/anynet" "$home/moved/it's here/lib"
}

wheel() {
	local file venv=$work/home/venv
	file=$(echo "$work"/dist/anynet-*.whl)
	python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 makes no virtual environments"
	as_user python3 -m venv venv
	as_user venv/bin/python -m pip --disable-pip-version-check install --no-index "$file"
	used "$venv/bin/anynet" "$venv/lib/anynet"
	as_user venv/bin/python -m pip --disable-pip-version-check check
	as_user venv/bin/python -m pip --disable-pip-version-check uninstall -y anynet
	find "$venv" -name '*anynet*' | grep . && fail "left behind by pip uninstall"
	:
}

"$(dirname "$0")/../../packaging/dist.sh" "$cmake" "$build" "$work/dist" "$version" "$glibc" 1700000000 >"$work/log" || {
	cat "$work/log"
	fail "dist.sh"
}
chmod 755 "$work"
chmod -R a+rX "$work/dist"
mkdir "$work/home"
[ ${#user[@]} = 0 ] || chown 4711:4711 "$work/home"
"$case"
echo "dist: as it should be"
