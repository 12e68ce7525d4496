# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: verbs devices and GPUs.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_ib() {
	# NCCL_NET=IB without an InfiniBand device.
	here=$(nic eth0 192.0.2.1/24)
	in_namespace "$here" NCCL_NET=IB
	if [ -n "$(findings usable)" ]; then
		echo "SKIP this host has InfiniBand or RoCE"
		exit 77
	fi
	finds asked-without error "NCCL_NET=IB" "libibverbs" "Failed to open libibverbs.so[.1]" \
		ncclInvalidUsage "over TCP on eth0 192.0.2.1" "unset NCCL_NET"
	status_is 2
	in_namespace "$here"
	finds_not asked-without
	status_is 0
	plant "$plugin" /opt/lib/libnccl-net.so
	in_namespace "$here" NCCL_NET=IB LD_LIBRARY_PATH=/opt/lib
	finds asked-without warn "anynet uses TCP on eth0 192.0.2.1"
	status_is 1

	port=/sys/class/infiniband/mlx5_0/ports/1
	write $port/state "4: ACTIVE"
	write $port/link_layer Ethernet
	write $port/rate "100 Gb/sec (4X EDR)"
	write $port/gids/0 fe80:0000:0000:0000:0202:c9ff:fe00:0001
	write $port/gids/3 0000:0000:0000:0000:0000:ffff:c000:0201
	write $port/gids/4 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/counters/symbol_error 3
	write /sys/class/infiniband/mlx5_0/ports/2/state "1: DOWN"
	write /dev/infiniband/uverbs0 x
	unlimited=$(ulimit -l unlimited 2>/dev/null && echo yes)
	[ -z "$unlimited" ] || ulimit -l unlimited
	check
	finds port ok "mlx5_0:1 is active, Ethernet, 100 Gb/sec"
	finds port-down note "mlx5_0:2" "DOWN"
	for id in gids-none gid-empty counters uverbs-missing; do finds_not $id; done
	[ -z "$unlimited" ] || status_is 0
	check NCCL_IB_GID_INDEX=4
	finds gid-empty error "NCCL_IB_GID_INDEX=4" mlx5_0:1 "unset NCCL_IB_GID_INDEX"
	check NCCL_IB_GID_INDEX=3
	finds_not gid-empty
	# InfiniBand without a subnet manager, and with one lane.
	other=/sys/class/infiniband/mlx5_0/ports/2
	write $other/link_layer InfiniBand
	write $other/state "2: INIT"
	check
	finds port-no-manager warn "mlx5_0:2 has a link" "2: INIT" opensm
	write $other/state "4: ACTIVE"
	write $other/rate "100 Gb/sec (2X HDR)"
	check
	finds_not port-no-manager
	finds_not port-narrow
	write $other/rate "25 Gb/sec (1X EDR)"
	check
	finds port-narrow warn "mlx5_0:2 runs on one lane: 25 Gb/sec" cable
	write $other/state "1: DOWN"
	# A GID that is not routable, or that only some hosts can reach: chosen by the user, or by an old NCCL.
	# A port that works.
	local works=(ANYNET_IBVERBS_LIB="$build/tests/fakes/verbs/libibverbs.so.1"
		FAKE_VERBS="device fake0 inline=256; port layer=eth gid=0,127.0.0.1,v2,lo")
	check "${works[@]}" ANYNET_CHECKSUM=1 ANYNET_TRANSPORT=ib NCCL_IB_TIMEOUT=22
	finds checksum-over-ib error "ANYNET_CHECKSUM=1 with ANYNET_TRANSPORT=ib" "nothing connects"
	finds slow-failover note "NCCL_IB_TIMEOUT=22" "137 s" ANYNET_IB_TIMEOUT=16
	check "${works[@]}" ANYNET_CHECKSUM=1 NCCL_IB_TIMEOUT=16
	finds_not checksum-over-ib
	finds_not slow-failover
	check ANYNET_CHECKSUM=1 ANYNET_TRANSPORT=ib NCCL_IB_TIMEOUT=22
	finds_not checksum-over-ib
	finds_not slow-failover
	check NCCL_IB_GID_INDEX=0
	finds gid-local warn "NCCL_IB_GID_INDEX=0" "link-local at mlx5_0:1" "unset NCCL_IB_GID_INDEX"
	write $port/gids/2 0000:0000:0000:0000:0000:ffff:c000:0201
	write $port/gid_attrs/types/2 "IB/RoCE v1"
	write $port/gid_attrs/types/3 "RoCE v2"
	write $port/gids/10 2001:0db8:0000:0000:0000:0000:0000:0001
	check NCCL_IB_GID_INDEX=2
	finds gid-v1 warn "NCCL_IB_GID_INDEX=2" "RoCE v1 at mlx5_0:1" "unset NCCL_IB_GID_INDEX"
	check NCCL_IB_GID_INDEX=3
	for id in gid-v1 gid-local gid-empty; do finds_not $id; done
	plant "$fakes/libfake_nccl_2.19.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check
	finds gid-local warn "older than 2.21 uses GID 0" "export NCCL_IB_GID_INDEX=3"
	check NCCL_IB_GID_INDEX=3
	finds_not gid-local
	check LD_LIBRARY_PATH=/opt/lib
	finds_not gid-local
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/local/nccl2/lib/libnccl.so.2
	check
	finds_not gid-local
	# The MTU of the interface that the packets leave by.
	write $port/gid_attrs/ndevs/3 rdma0
	write /sys/class/net/rdma0/mtu 1500
	check
	finds roce-mtu note "mlx5_0:1 uses rdma0" "MTU of 1500" "ip link set rdma0 mtu 9000"
	write /sys/class/net/rdma0/mtu 9000
	check
	finds_not roce-mtu
	finds_not gids-local
	mv "$root$port/gids/3" "$work/gid"
	rm "$root$port/gids/2" "$root$port/gids/10"
	check
	finds gids-local warn "mlx5_0:1 has only link-local GIDs" "NCCL_IB_HCA=^=mlx5_0:1"
	check NCCL_IB_HCA=^=mlx5_0:1
	finds port-left-out note mlx5_0:1
	finds_not gids-local
	mv "$work/gid" "$root$port/gids/3"
	write $port/counters/symbol_error 65535
	write $port/counters/link_downed 99
	check
	finds counters warn "symbol_error 65535, link_downed 99" "cable" "error 12"
	write $port/gids/0 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/gids/3 0000:0000:0000:0000:0000:0000:0000:0000
	check
	finds gids-none warn mlx5_0:1 "IP address"
	check NCCL_IB_DISABLE=1
	finds_not gids-none
	# One of two devices has no device file, or denies access to the user.
	for i in 0 1; do write /sys/class/infiniband_verbs/uverbs$i/ibdev mlx5_$i; done
	check
	finds uverbs-missing note "no /dev/infiniband/uverbs1"
	write /dev/infiniband/uverbs1 x
	check
	finds_not uverbs-missing
	finds_not uverbs-denied
	chmod 000 "$root/dev/infiniband/uverbs1"
	# Root opens all files and may lock any amount of memory, so the test drops these capabilities.
	[ "$(id -u)" != 0 ] || as="setpriv --bounding-set -dac_override,-dac_read_search,-ipc_lock"
	# shellcheck disable=SC2086
	$as true || { echo "SKIP root cannot give up capabilities here"; exit 77; }
	check
	finds uverbs-denied warn "/dev/infiniband/uverbs1 (mlx5_1)" "Permission denied" \
		"chmod 666 /dev/infiniband/uverbs1"
	chmod 666 "$root/dev/infiniband/uverbs1"
	check
	finds_not uverbs-denied
	(ulimit -l 64 && check && finds memlock warn "64 KiB" "ulimit -l unlimited") || fail "memlock"
	# The host's root has no limit.
	caps=$(awk '/^CapEff/ { print $2 }' /proc/self/status)
	if grep -q 4294967295 /proc/self/uid_map && ((0x$caps >> 14 & 1)); then
		(as= && ulimit -l 64 && check && finds_not memlock) || fail "memlock, for root"
	fi
	(ulimit -l 64 && check NCCL_IB_DISABLE=1 && finds_not memlock) || fail "memlock, though disabled"
	rm -r "${root:?}/dev" "$root/sys/class/infiniband_verbs"
	check
	finds uverbs-missing warn "no /dev/infiniband/uverbs*" "--device=/dev/infiniband"
}

case_gpu() {
	# Driver and CUDA, memory, errors.
	check
	[ -z "$(findings gpu)" ] || { echo "SKIP this host has a GPU"; exit 77; }
	finds nvml-none note libnvidia-ml.so.1
	status_is 0
	mkdir "$work/nvml"
	cp "$fakes/libfake_nvml.so" "$work/nvml/libnvidia-ml.so.1"
	nvml=LD_LIBRARY_PATH=$work/nvml
	check "$nvml"
	finds gpu ok "GPU 0 NVIDIA A10G" "70.0 of 80.0 GiB free"
	finds cuda ok "CUDA up to 12.2"
	status_is 0
	check "$nvml" FAKE_NVML="0 1 3"
	finds memory-full warn "1.0 of 80.0 GiB" "unhandled cuda error" nvidia-smi
	finds ecc warn "3 uncorrected"
	check "$nvml" FAKE_NVML=18
	finds driver-mismatch error "version mismatch" "reboot the host"
	site=/opt/venv/lib/python3.11/site-packages
	write $site/torch/version.py "__version__ = '2.4.0+cu121'" "cuda: Optional[str] = '12.1'"
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.223.02  Sat Oct  7 15:39:11 UTC 2023"
	check VIRTUAL_ENV=/opt/venv
	finds driver-old error "PyTorch 2.4.0+cu121" "525.60.13 or newer; this host has 470.223.02"
	# What this job does not use is only a note: another environment, a default libnccl that nothing names.
	write /opt/py/lib/python3.11/site-packages/x x
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/lib64/libnccl.so.2
	mkdir -p "$root/opt/venv/bin"
	echo x >"$root/opt/venv/bin/python3"
	check VIRTUAL_ENV=/opt/py PATH=/opt/venv/bin:/usr/bin:/bin
	finds driver-old note "PyTorch 2.4.0+cu121" "525.60.13 or newer"
	finds driver-old note /usr/lib64/libnccl.so.2
	status_is 0
	check PATH=/opt/venv/bin:/usr/bin:/bin
	finds driver-old error "PyTorch 2.4.0+cu121"
	check LD_LIBRARY_PATH=/usr/lib64
	finds driver-old error /usr/lib64/libnccl.so.2
	rm -r "$root/usr/lib64/libnccl.so.2" "$root/opt/venv/bin"
	# CUDA's runtime, for programs that bring none: one version that this driver supports is enough.
	write /usr/lib64/libcudart.so.12.1.105 x
	ln -s libcudart.so.12.1.105 "$root/usr/lib64/libcudart.so.12"
	check
	finds runtime-new warn "CUDA runtime 12.1.105 in /usr/lib64" "needs driver 525.60.13" \
		"this host has 470.223.02" "install a newer driver"
	write /usr/lib64/libcudart.so.11.8.89 x
	ln -s libcudart.so.11.8.89 "$root/usr/lib64/libcudart.so.11.0"
	check
	finds runtime ok "11.8.89 in /usr/lib64/libcudart.so.11.8.89"
	finds runtime-new note 12.1.105
	status_is 0
	write /usr/local/cuda-12.1/compat/libcuda.so.1 x
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/cuda-12.1/compat
	finds driver-compat note /usr/local/cuda-12.1/compat/libcuda.so.1
	status_is 0
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build"
	check VIRTUAL_ENV=/opt/venv
	finds driver ok 535.104.05
	finds_not driver-old
	finds runtime ok 12.1.105
	finds_not runtime-new
	write /dev/kmsg "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=python" \
		"6,1,3,-;NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', GPU has fallen off the bus." \
		"6,1,4,-;NVRM: Xid (PCI:" "NVRM: Xid (PCI:0000): x"
	check
	finds xid warn "2 Xid errors" "79 on 0000:3d:00" "fallen off the bus"
	rm "$root/dev/kmsg"

	# A PCI switch with a GPU and a NIC below it, and a NIC at another root.
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $switch/0000:3c:01.0/0000:3e:00.0 0x15b3 0x020700 0
	device /sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0 0x15b3 0x020700 1
	for i in 0:$switch/0000:3c:01.0/0000:3e:00.0 \
		1:/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0; do
		mkdir -p "$root/sys/class/infiniband/mlx5_${i%%:*}"
		ln -s "${i#*:}" "$root/sys/class/infiniband/mlx5_${i%%:*}/device"
	done
	write /dev/infiniband/uverbs0 x
	check
	finds way ok "0000:3d:00.0 – mlx5_0: PIX" "by dma-buf"
	finds way ok "0000:3d:00.0 – mlx5_1: SYS" "not used at this distance (NCCL_NET_GDR_LEVEL)"
	finds_not acs
	finds_not direct-none
	check NCCL_NET_GDR_LEVEL=sys
	finds way ok "mlx5_1: SYS, GPUDirect RDMA by dma-buf"
	check NCCL_NET_GDR_LEVEL=unknown
	finds way ok "mlx5_0: PIX, GPUDirect RDMA by dma-buf"
	check NCCL_NET_GDR_LEVEL=LOC
	finds way ok "mlx5_0: PIX" "not used at this distance (NCCL_NET_GDR_LEVEL=LOC)"
	check NCCL_NET_GDR_LEVEL=1
	finds way ok "mlx5_0: PIX, GPUDirect RDMA by dma-buf"
	# Other users than root can read only 64 bytes of a bridge's configuration.
	finds acs-unknown note "only root"
	for i in 0 1; do head -c 256 /dev/zero >"$root$switch/0000:3c:0$i.0/config"; done
	head -c 256 /dev/zero >"$root$switch/config"
	check
	finds_not acs-unknown
	# Reasons why GPUDirect RDMA is not available: the modules, the kernel, a setting.
	check NCCL_DMABUF_ENABLE=0
	finds direct-none note "NCCL_DMABUF_ENABLE=0" "main memory" "modprobe nvidia-peermem"
	mkdir -p "$root/sys/module/nvidia_peermem"
	check NCCL_DMABUF_ENABLE=0
	finds way ok "mlx5_0: PIX" "by nvidia_peermem"
	finds_not direct-none
	rmdir "$root/sys/module/nvidia_peermem"
	write /proc/sys/kernel/osrelease 5.4.0-150-generic
	check
	finds direct-none note "Linux 5.12"
	write /proc/sys/kernel/osrelease 6.1.0-18-amd64
	check
	finds_not direct-none
	finds_not iommu
	# ACS at the NIC's port of the switch, and an IOMMU that translates addresses.
	{
		head -c 256 /dev/zero
		printf '\001\000\002\020' # another capability, which points to the next one at 0x100
		head -c 28 /dev/zero
	} >"$root$switch/0000:3c:01.0/config"
	check
	finds_not acs
	{
		head -c 256 /dev/zero
		printf '\001\000\002\021' # … at 0x110
		head -c 12 /dev/zero
		printf '\015\000\001\000\377\000\035\000'
	} >"$root$switch/0000:3c:01.0/config"
	write $switch/0000:3c:00.0/0000:3d:00.0/iommu_group/type DMA-FQ
	check
	finds acs warn "ACS at 0000:3c:01.0" "setpci -s 0000:3c:01.0"
	mv "$root$switch/0000:3c:01.0/config" "$root$switch/0000:3c:00.0/config"
	check
	finds acs warn "ACS at 0000:3c:00.0 " "setpci -s 0000:3c:00.0"
	finds iommu warn 0000:3d:00.0 "iommu=pt"
	rm "$root/proc/driver/nvidia/version"
	check
	finds driver-none warn 0000:3d:00.0 "modprobe nvidia"
	finds way ok mlx5_0 "not used: no NVIDIA driver"
	write /proc/driver/nvidia/version "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  x"
	check
	finds direct-none note "open kernel modules"
}
