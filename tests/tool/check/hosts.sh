#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verdicts of `anynet check` on the hosts of hosts.txt: hosts.sh BUILD_DIR [NAME]. Red if fewer than 95 of 100
# verdicts are right, or if a healthy host gets a warning or an error. Exit 77 = skipped.
set -uo pipefail
if [ -z "${CHECK_APART-}" ]; then
	for user in "" -r; do
		# shellcheck disable=SC2086
		unshare -n $user true 2>/dev/null && CHECK_APART=1 exec unshare -n $user "$0" "$@"
	done
	echo "SKIP this process may not make a network namespace"
	exit 77
fi
build=${1:?} only=${2-}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
fakes=$build/tests/fakes/files
table=$(dirname "$0")/hosts.txt
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
ulimit -l unlimited 2>/dev/null
# shellcheck source=tests/tool/check/tree.sh
. "$(dirname "$0")/tree.sh"
cp -r "$root" "$work/bare"

wheel=/opt/venv/lib/python3.11/site-packages
hosts=0 right=0 alarms=0

# port NAME STATE LAYER RATE: a verbs port, with GIDs for RoCE v2 and a PCI device
port() {
	local port=/sys/class/infiniband/$1/ports/1 number=${1#mlx5_} i
	write "$port/state" "$2"
	write "$port/link_layer" "$3"
	write "$port/rate" "$4"
	for i in 0:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v1 1:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v2 \
		2:0000:0000:0000:0000:0000:ffff:c633:6401:v1 3:0000:0000:0000:0000:0000:ffff:c633:6401:v2; do
		write "$port/gids/${i%%:*}" "$(cut -d: -f2-9 <<<"$i")"
		write "$port/gid_attrs/types/${i%%:*}" "RoCE ${i##*:}"
		write "$port/gid_attrs/ndevs/${i%%:*}" rdma0
	done
	write /sys/class/net/rdma0/mtu 9000
	write "$port/counters/symbol_error" 0
	write "/sys/class/infiniband_verbs/uverbs$number/ibdev" "$1"
	write "/dev/infiniband/uverbs$number" x
}

# gpu: a GPU beside a NIC behind a PCI switch, with its driver and CUDA's runtime
gpu() {
	local switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0 i
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $switch/0000:3c:01.0/0000:3e:00.0 0x15b3 0x020700 0
	mkdir -p "$root/sys/class/infiniband/mlx5_0"
	ln -s $switch/0000:3c:01.0/0000:3e:00.0 "$root/sys/class/infiniband/mlx5_0/device"
	for i in "" /0000:3c:00.0 /0000:3c:01.0; do head -c 4096 /dev/zero >"$root$switch$i/config"; done
	write $switch/0000:3c:00.0/0000:3d:00.0/iommu_group/type identity
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
	write /proc/sys/kernel/osrelease 6.8.0-45-generic
	write /usr/lib64/libcudart.so.13.0.96 x
	write /dev/infiniband/uverbs0 x
	ln -s libcudart.so.13.0.96 "$root/usr/lib64/libcudart.so.13"
}

# torch NCCL VERSION CUDA: a virtual environment with PyTorch, and this NCCL as its wheel
torch() {
	plant "$fakes/libfake_nccl_$1.so" $wheel/nvidia/nccl/lib/libnccl.so.2
	plant "$fakes/libfake_torch_rpath.so" $wheel/torch/lib/libtorch_cuda.so
	write $wheel/torch/version.py "__version__ = '$2'" "cuda: Optional[str] = '$3'"
	mkdir -p "$root$wheel/nvidia_nccl_cu${3%%.*}-$1.dist-info"
}

# Checks the current host: $name, $kind, $links (commands for interfaces), $vars, $want
judge() {
	local said found line bad=""
	[ -n "$name" ] || return
	[ -z "$only" ] || [ "$only" = "$name" ] || return
	hosts=$((hosts + 1))
	options=
	in_namespace "$links" "${vars[@]}"
	said=$(jq -r '.findings[] | select(.level == "warning" or .level == "error") |
		"\(.level) \(.id): \(.finding) | \(.why) | \(.fix)"' "$work/json")
	if [ "$kind" = healthy ]; then
		bad=$said
		[ -z "$said" ] || alarms=$((alarms + 1))
	else
		found=$(grep -E -- "$want" <<<"$said")
		[ -n "$found" ] || bad="not found: $want"
		while read -r line; do
			[ -z "$line" ] || grep -qE -- "$want" <<<"$line" || bad+=$'\n'"also: $line"
		done <<<"$said"
	fi
	if [ -z "$bad" ]; then
		right=$((right + 1))
	else
		echo "$kind host '$name': $bad"
	fi
}

name=
while read -r word rest; do
	case $word in
	"" | "#") continue ;;
	healthy | broken)
		judge
		kind=$word name=$rest links="" want="" vars=()
		rm -rf "$root"
		cp -r "$work/bare" "$root"
		;;
	nic) links+=$(eval nic "$rest")$'\n' ;;
	link) links+=$rest$'\n' ;;
	env) eval "vars+=($rest)" ;;
	want) want+=${want:+|}$rest ;;
	*) eval "$word $rest" || fail "$name: $word $rest" ;;
	esac
done <"$table"
judge
healthy=$(grep -c '^healthy ' "$table")
echo "$right of $hosts hosts judged right, $alarms of $healthy healthy ones alarmed about"
[ -z "$only" ] || exit $((right < hosts))
if [ "$hosts" -lt 80 ] || [ $((4 * healthy)) -lt $hosts ]; then fail "too few hosts"; fi
[ "$alarms" = 0 ] && [ $((100 * right)) -ge $((95 * hosts)) ]
