#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a throw-away virtual machine with a kernel of its own, for what the host's may
# not have or may not do: packets lost and reordered (netem), software RDMA (rdma_rxe).
#
# Usage: tests/guest/guest.sh [OPTION...] -- COMMAND [ARGUMENT...]
#
#   --cpus N      processors (default: as many as the host has)
#   --memory MB   (default 2048)
#   --limit S     ends the guest after that many seconds (default 300), exit 124
#   --offline     for test suites: download nothing; exit 77 and say why if ANYNET_GUEST is 0, or the
#                 guest is not prepared (prepare.sh) or cannot be started
#   --verbose     the guest kernel's messages and the time each step takes, on stderr
#
# The guest sees the host's whole file system, read only beneath a layer in its memory: what is built
# here runs there, as root, in the same directory, and what it writes is gone afterwards. The files
# must not change meanwhile. No network leads out of it. The command's output comes out here, stderr
# along with stdout; its input is empty; the environment is a fresh one. Exit status: the command's,
# 124 after the limit, 125 if the guest itself failed, 77 with --offline.
#
# Needs neither root nor hardware: without usable KVM the processor is emulated, about 20 times
# slower than the real one, so no time measured in it means anything but beside another one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	sed -n '/^# Usage/,/^#   --verbose/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

cpus=$(nproc) memory=2048 limit=300 offline=() verbose=''
while [ $# -gt 0 ]; do
	case $1 in
	--cpus) cpus=${2:?}; shift ;;
	--memory) memory=${2:?}; shift ;;
	--limit) limit=${2:?}; shift ;;
	--offline) offline=(--offline) ;;
	--verbose) verbose=yes ;;
	--) shift; break ;;
	*) usage ;;
	esac
	shift
done
[ $# -gt 0 ] || usage

# An emulated machine keeps both processors busy for minutes.
if [ -n "${offline[*]}" ] && [ "${ANYNET_GUEST:-}" = 0 ]; then
	echo "SKIP guest: ANYNET_GUEST=0 is in the environment"
	exit 77
fi
cache=$("$here/prepare.sh" "${offline[@]}") || {
	[ $? != 77 ] || { echo "$cache"; exit 77; } # the reason
	exit 125
}
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT

# Input of the guest, in a directory that it can write to as well.
tell() {
	cp "$here/start.sh" "$run/shared/"
	echo "$cache/kernel/lib/modules" >"$run/shared/modules"
	{
		printf 'cd %q\nexec' "$PWD"
		printf ' %q' "$@"
		echo
	} >"$run/shared/command"
}

# share NAME DIRECTORY [,OPTION]: a directory of the host that the guest can mount by name
share() {
	echo -fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap${3:-}"
	echo -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
}

# KVM only if the processor supports it: some hosts offer a /dev/kvm that emulates, and not enough.
accelerator() {
	if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then
		echo -accel kvm
	fi
	echo -accel tcg,thread=multi,tb-size=256
}

# The kernel ends the guest with this script, however that ends.
boot() {
	local quiet="quiet loglevel=3"
	[ -z "$verbose" ] || quiet=loglevel=6
	# shellcheck disable=SC2046 # words on purpose
	setpriv --pdeathsig TERM timeout --kill-after=5 "$limit" \
		qemu-system-x86_64 -nodefaults -no-user-config -display none -monitor none -no-reboot \
		-M pc,usb=off,vmport=off $(accelerator) \
		-cpu max,la57=off -smp "$cpus" -m "$memory" \
		-kernel "$cache/kernel/vmlinux" -initrd "$cache/initramfs" \
		-append "console=ttyS0 $quiet panic=-1 tsc=reliable no_timer_check mitigations=off \
			audit=0 apparmor=0 nowatchdog random.trust_cpu=on cryptomgr.notests \
			net.ifnames=0 ipv6.disable_ipv6=1 rcupdate.rcu_expedited=1" \
		-serial "file:$run/console" \
		$(share root / ,readonly=on) $(share run "$run/shared") \
		-device virtio-serial-pci -chardev file,id=out,path=/dev/stdout \
		-device virtserialport,chardev=out,nr=1 \
		</dev/null >&3 2>"$run/qemu"
}

# Errors of the guest kernel, after a run that worked otherwise.
complaints() {
	grep -E -A 12 'BUG:|Oops|WARNING:' "$run/shared/dmesg" >"$run/complaints" || return 0
	echo "guest: its kernel complained:" >&2
	head -n 40 "$run/complaints" >&2
}

mkdir "$run/shared"
tell "$@"
began=$EPOCHREALTIME
status=0
exec 3> >(exec cat) # a pipe, which qemu can open as a file, whatever the output of this script is
reader=$!
boot || status=$?
exec 3>&-
wait "$reader"
if [ -n "$verbose" ]; then
	cat "$run/console" >&2
	awk -v began="$began" -v ended="$EPOCHREALTIME" -v up="$(cat "$run/shared/up")" 'BEGIN {
		printf "guest: %.1f s until the command started, %.1f s in all\n",
			up - began, ended - began }' >&2
fi
if [ -s "$run/shared/status" ]; then
	complaints
	exit "$(<"$run/shared/status")"
fi
if [ -n "${offline[*]}" ] && [ ! -e "$run/shared/up" ]; then
	echo "SKIP guest: the machine did not come up here: $(tail -qn 1 "$run/qemu" "$run/console" |
		tr '\n' ' ')"
	exit 77
fi
tail -n 20 "$run/qemu" "$run/console" >&2 || true
if [ "$status" = 124 ] || [ "$status" = 137 ]; then
	echo "guest: ended after $limit s" >&2
	exit 124
fi
echo "guest: it went down with status $status before the command was done" >&2
exit 125
