#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is installed without root: a tarball that runs from wherever it is unpacked, and a wheel for pip. The same bytes for
# the same files. Usage: dist.sh CMAKE BUILD_DIR OUT_DIR VERSION GLIBC (the oldest; "" = this system's) TIME (seconds)
set -euo pipefail
cmake=${1:?} build=${2:?} out=${3:?} version=${4:?} glibc=${5?} time=${6:?}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

machine=$(LC_ALL=C readelf -h "$build/libnccl-net.so" | sed -n 's/^ *Machine: *//p')
case $machine in
*X86-64*) arch=x86_64 ;;
AArch64) arch=aarch64 ;;
*)
	echo "dist: built for '$machine', which has no name here" >&2
	exit 1
	;;
esac
name=anynet-$version-linux-$arch
umask 022
mkdir -p "$out"
"$cmake" --install "$build" --prefix "$work/$name" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
tar -C "$work" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
	-cf - "$name" | gzip -9n >"$work/$name.tar.gz"
mv "$work/$name.tar.gz" "$out/"
echo "$out/$name.tar.gz"
python3 "$here/wheel.py" "$work/$name" "$out" "$version" "$arch" "$glibc" "$time"
