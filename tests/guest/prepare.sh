#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what guest.sh boots, once: takes a kernel and its modules out of a Debian package, and packs
# an initramfs of busybox, init.sh and the few modules that are needed to reach the host's files.
#
# Usage: tests/guest/prepare.sh [--offline]
#
# Prints the directory it is in. --offline: download nothing; if the kernel is not there yet, or a
# tool, print "SKIP" with the reason and exit with 77. Needs no root.
#
# ANYNET_GUEST_CACHE   where it is kept, about 200 MB (default $XDG_CACHE_HOME/anynet-guest, or
#                      ~/.cache/anynet-guest). Remove it to get the newest kernel.
# ANYNET_GUEST_KERNEL  the kernel's package, or a metapackage that depends on it (default: the first
#                      of linux-image-6.12-amd64 and linux-image-amd64 that apt knows)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${ANYNET_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/anynet-guest}
offline=''

# In loading order, with their dependencies: the disk is the host's file system by 9p
# over virtio, writes go to memory (overlay), output leaves by a virtio port. All other modules are
# loaded from the package's tree once the root is there.
boot_modules="virtio_pci virtio_console 9pnet_virtio 9p overlay"

give_up() {
	if [ -n "$offline" ]; then
		echo "SKIP guest: $*"
		exit 77
	fi
	echo "guest: $*" >&2
	exit 1
}

need_tools() {
	[ "$(uname -m)" = x86_64 ] || give_up "only x86-64 hosts can boot it, this one is $(uname -m)"
	local tool missing=''
	for tool in qemu-system-x86_64 busybox cpio depmod xz zstd; do
		command -v "$tool" >/dev/null || missing+=" $tool"
	done
	[ -z "$missing" ] || give_up "not found:$missing; 'tools/deps.sh guest' installs them"
	# The busybox of the package busybox-static: there are no libraries in the initramfs.
	if LC_ALL=C ldd "$(command -v busybox)" 2>/dev/null | grep '=>' >/dev/null; then
		give_up "busybox is not a static one; 'tools/deps.sh guest' installs it"
	fi
}

# The package with the kernel itself: a metapackage depends on it by name and version.
kernel_package() {
	local name found
	for name in ${ANYNET_GUEST_KERNEL:-linux-image-6.12-amd64 linux-image-amd64}; do
		found=$(apt-cache depends "$name" 2>/dev/null) || continue
		awk -v name="$name" '$1 == "Depends:" && $2 ~ /^linux-image-/ { name = $2 }
			END { print name }' <<<"$found"
		return
	done
	return 1
}

download() {
	command -v apt-get >/dev/null || give_up "no apt-get here to download a kernel package with"
	local package
	if ! package=$(kernel_package); then
		[ "$(id -u)" != 0 ] || apt-get update -qq
		package=$(kernel_package) || give_up "apt knows no kernel package: apt-get update?"
	fi
	echo "guest: downloading $package" >&2
	# As root apt warns that it cannot download as its own user into this directory.
	(cd "$1" && apt-get -qq download "$package" 2>apt.log) || {
		cat "$1/apt.log" >&2
		give_up "apt-get could not download $package"
	}
}

# number OFFSET BYTES FILE: a little-endian field
number() {
	od -An -v -t "u$2" -j "$1" -N "$2" "$3" | tr -d ' '
}

# unpack_kernel VMLINUZ: extracts the ELF file, so that the emulated processor need not decompress it.
# The header has its place (Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
# payload_length); the 4 bytes behind the compressed data hold the size.
unpack_kernel() {
	local offset length
	offset=$((($(number 0x1f1 1 "$1") + 1) * 512 + $(number 0x248 4 "$1")))
	length=$(($(number 0x24c 4 "$1") - 4))
	case $(number "$offset" 4 "$1") in
	1484404733) set -- "$1" xz -dc ;;     # fd 37 7a 58
	4247762216) set -- "$1" zstd -dcq ;;  # 28 b5 2f fd
	*) give_up "how the kernel in $1 is compressed is not known here" ;;
	esac
	dd if="$1" bs=1M iflag=skip_bytes,count_bytes skip="$offset" count="$length" status=none |
		"${@:2}"
}

# The kernel and all its modules, in $cache/kernel. `release` is its version string.
make_kernel() {
	local new=${cache:?}/kernel.new vmlinuz release
	[ ! -e "$cache/kernel/release" ] || return 0
	[ -z "$offline" ] || give_up "its kernel is not there yet; 'make guest' downloads it"
	rm -rf "$new" "$cache/kernel"
	mkdir "$new"
	download "$new"
	dpkg-deb --fsys-tarfile "$new"/*.deb |
		tar -C "$new" -x --wildcards --no-same-owner --strip-components=1 \
			'./boot/vmlinuz-*' './*lib/modules/*'
	rm "$new"/*.deb "$new/apt.log"
	[ -d "$new/lib" ] || mv "$new/usr/lib" "$new/lib"
	vmlinuz=$(echo "$new"/boot/vmlinuz-*)
	release=${vmlinuz##*/vmlinuz-}
	unpack_kernel "$vmlinuz" >"$new/vmlinux"
	depmod -b "$new" "$release"
	rm -r "${new:?}/boot"
	echo "$release" >"$new/release"
	mv "$new" "$cache/kernel"
}

# Paths of the boot modules and their dependencies, in loading order. Modules that are built into the kernel have
# none.
module_files() {
	local module
	for module in $boot_modules; do
		modprobe -d "$cache/kernel" -S "$1" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# decompress FILE: to standard output, whatever the format
decompress() {
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -dcq "$1" ;;
	*) cat "$1" ;;
	esac
}

# Made again when this script, init.sh, busybox or the kernel has changed.
make_initramfs() {
	local release key root=$cache/initramfs.new file name
	release=$(<"$cache/kernel/release")
	key=$(cat "$0" "$here/init.sh" "$(command -v busybox)" "$cache/kernel/release" | sha256sum)
	[ "$key" != "$(cat "$cache/initramfs.key" 2>/dev/null)" ] || return 0
	rm -rf "$root" "$cache/initramfs.key"
	mkdir -p "$root"/{bin,dev,modules,new,proc,host,sys,writes}
	cp "$(command -v busybox)" "$root/bin/busybox"
	install -m 755 "$here/init.sh" "$root/init"
	module_files "$release" | while read -r file; do
		name=${file##*/}
		name=${name%%.ko*}.ko
		decompress "$file" >"$root/modules/$name"
		echo "$name" >>"$root/modules/order"
	done
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) >"$cache/initramfs"
	rm -r "$root"
	echo "$key" >"$cache/initramfs.key"
}

case $*,${1:-} in
,) ;;
--offline,*) offline=yes ;;
*)
	sed -n '/^# Usage/,/^# of linux/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
need_tools
if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
	give_up "cannot write to $cache"
fi
exec 9>"$cache/lock" # one at a time; others wait and find it done
flock 9
make_kernel
make_initramfs
echo "$cache"
