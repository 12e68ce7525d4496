# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: the report for the maintainers, and the verdict on a healthy host.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_report() {
	# The report contains what a row of the table of adapters needs, and no names or secrets.
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	nic=$switch/0000:3c:01.0/0000:3e:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $nic 0x15b3 0x020700 0
	write $nic/device 0x1021
	write $nic/current_link_speed "32.0 GT/s PCIe"
	write $nic/iommu_group/type identity
	mkdir -p "$root/sys/bus/pci/drivers/mlx5_core" "$root/sys/class/infiniband/fake0"
	ln -s /sys/bus/pci/drivers/mlx5_core "$root$nic/driver"
	ln -s $nic "$root/sys/class/infiniband/fake0/device"
	adapter=/sys/class/infiniband/fake0
	write $adapter/fw_ver 28.39.1002
	write $adapter/board_id MT_0000000838
	write $adapter/node_guid b8ce:f603:0001:0203
	write $adapter/node_desc "gpu07 mlx5_0"
	port=$adapter/ports/1
	write $port/link_layer Ethernet
	write $port/rate "400 Gb/sec (4X NDR)"
	write $port/gids/0 fe80:0000:0000:0000:bace:f6ff:fe01:0203
	write $port/gids/3 0000:0000:0000:0000:0000:ffff:0a01:0203
	write $port/gids/4 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/gid_attrs/types/3 "RoCE v2"
	write /proc/cmdline "root=UUID=12345678 iommu=pt intel_iommu=on password=letmein"
	write /proc/sys/kernel/osrelease 6.8.0-45-generic
	write /etc/os-release 'PRETTY_NAME="Some Linux 1"'
	write /sys/module/mlx5_ib/version 24.10
	write /etc/hosts "10.1.2.3 gpu07"
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/lib64/libnccl.so.2
	report() {
		env -i PATH=/usr/bin:/bin USER=alice API_TOKEN=hunter22 NCCL_MINE=swordfish NCCL_PSK=marzipan HF_KEY=openseame \
			ANYNET_SECRET_FILE=/home/alice/secret NCCL_COMM_ID=10.1.2.3:5000 MASTER_ADDR=gpu07 \
			NCCL_SOCKET_IFNAME=^docker0 ANYNET_IBVERBS_LIB="$build/tests/fakes/verbs/libibverbs.so.1" \
			FAKE_VERBS="device fake0 inline=256; port layer=eth gid=0,127.0.0.1,v2,lo" \
			"$tool" check --root "$root" --report "$@" >"$work/stdout" 2>"$work/stderr"
		status=$?
		[ -s "$work/stderr" ] && { cat "$work/stderr"; fail "something on stderr"; }
	}
	# has TEXT...: these texts are in the file, ignoring blanks and line ends
	has() {
		local text
		for text; do
			tr -d ' \n' <"$work/json" | grep -qF -- "${text// /}" || fail "no '$text' in the report"
		done
	}
	(umask 0 && true >"$work/json")
	report "$work/json"
	[ -s "$work/stdout" ] || fail "no findings are printed beside it"
	[ "$(stat -c %a "$work/json")" = 600 ] || fail "others may read it"
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json" 2>/dev/null ||
		! command -v python3 >/dev/null || fail "it is not JSON"
	has '"name": "fake0"' '"firmware": "28.39.1002"' '"board": "MT_0000000838"' '"driver": "mlx5_core"' \
		'"device": "0x1021"' '"current_link_speed": "32.0 GT/s PCIe"' '"iommu": "identity"' \
		'"virtual_function": false' '"link_layer": "Ethernet"' '"rate": "400 Gb/sec (4X NDR)"' \
		'{"index": 0, "address": "link-local"}' '{"index": 3, "address": "IPv4", "type": "RoCE v2"}' \
		'"max_inline": 256' '"max_sge": 16' '"transport": "IB"' \
		'"gpu": "0000:3d:00.0", "adapter": "fake0", "distance": "PIX"' '"acs": "not readable"' \
		'"release": "6.8.0-45-generic"' '"distribution": "Some Linux 1"' '"iommu=pt", "intel_iommu=on"' \
		'"mlx5_ib": {"version": "24.10"}' '"version": "2.28.9"' \
		'"transport": "IB", "name": "fake0", "usable": true' '"NCCL_SOCKET_IFNAME": "^docker0"' \
		'"NCCL_MINE": "(not shown)"' '"NCCL_PSK": "(not shown)"' '"ANYNET_SECRET_FILE": "(not shown)"' '"id": "' '"gpu_memory": "'
	for secret in hunter22 swordfish marzipan openseame letmein alice /home/alice/secret gpu07 10.1.2.3 b8ce:f603 \
		bace:f6ff 0a01:0203 12345678 "$(uname -n)"; do
		grep -wqF -- "$secret" "$work/json" && fail "'$secret' is in the report"
	done
	report "$work/json" --keep-names
	has '"NCCL_COMM_ID": "10.1.2.3:5000"'
	for secret in hunter22 swordfish marzipan openseame letmein; do
		grep -qF -- "$secret" "$work/json" && fail "'$secret' is in the report, with names"
	done
	report "$work/json" --quiet
	has '"level": "ok"' '"level": "note"'
	report -
	cp "$work/stdout" "$work/json"
	has '{"report": 1'
	env -i PATH=/usr/bin:/bin "$tool" check --root "$root" --report /nowhere/x >"$work/stdout" 2>"$work/stderr"
	[ $? = 2 ] || fail "a file that cannot be written is no error"
	grep -q "/nowhere/x cannot be written: No such file" "$work/stderr" || fail "nor is it named"
	grep -q "passed" "$work/stdout" || fail "the findings are lost"
}

case_clean() {
	# No false alarm: a host with a NIC, the plugin, one NCCL, PyTorch, a correct job, and 20 interfaces and 5
	# Pythons, which must not slow it down.
	plant "$plugin" /usr/lib64/libnccl-net.so
	for i in 1 2 3 4 5; do
		site=/opt/conda/envs/env$i/lib/python3.1$i/site-packages
		plant "$fakes/libfake_nccl_2.30.7.so" $site/nvidia/nccl/lib/libnccl.so.2
		plant "$fakes/libfake_torch_rpath.so" $site/torch/lib/libtorch_cuda.so
		write $site/torch/version.py "__version__ = '2.11.0+cu130'" \
			"cuda: Optional[str] = '13.0'"
		mkdir "$root$site/nvidia_nccl_cu13-2.30.7.dist-info"
	done
	interfaces=$(nic eth0 192.0.2.1/24)
	for i in 1 2 3 4 5 6 7 8 9 10; do
		interfaces+="ip link add name v$i type veth peer name w$i;"
	done
	in_namespace "$interfaces" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 NCCL_IB_TIMEOUT=22 \
		RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=2 \
		MASTER_ADDR=192.0.2.1 MASTER_PORT=29500 CONDA_PREFIX=/opt/conda/envs/env1 \
		NCCL_NET=IB NCCL_IB_DISABLE=0 ANYNET_IO_THREADS=2 NCCL_VERSION=2.30.7
	if [ -z "$(findings usable)" ]; then
		# The only finding: the job asks for InfiniBand, and there is none.
		finds asked-without warn "uses TCP on eth0"
		in_namespace "$interfaces" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 \
			CONDA_PREFIX=/opt/conda/envs/env1
	fi
	status_is 0
	[ "$(findings user-loads | wc -l)" = 5 ] || fail "not all Pythons are found"
	for verdict in warning error; do
		grep -q "\"level\": \"$verdict\"" "$work/json" && fail "a $verdict on a clean host"
	done
	in_namespace "$interfaces"
	status_is 0
	# The same host with RoCE and a GPU at one PCI switch, which is the best placement.
	port=/sys/class/infiniband/mlx5_0/ports/1
	write $port/state "4: ACTIVE"
	write $port/link_layer Ethernet
	write $port/rate "400 Gb/sec (4X NDR)"
	for i in 0:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v1 1:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v2 \
		2:0000:0000:0000:0000:0000:ffff:c633:6401:v1 3:0000:0000:0000:0000:0000:ffff:c633:6401:v2; do
		write "$port/gids/${i%%:*}" "$(cut -d: -f2-9 <<<"$i")"
		write "$port/gid_attrs/types/${i%%:*}" "RoCE ${i##*:}"
		write "$port/gid_attrs/ndevs/${i%%:*}" rdma0
	done
	write /sys/class/net/rdma0/mtu 9000
	write $port/counters/symbol_error 0
	write /sys/class/infiniband_verbs/uverbs0/ibdev mlx5_0
	write /dev/infiniband/uverbs0 x
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $switch/0000:3c:01.0/0000:3e:00.0 0x15b3 0x020700 0
	ln -s $switch/0000:3c:01.0/0000:3e:00.0 "$root/sys/class/infiniband/mlx5_0/device"
	for i in "" /0000:3c:00.0 /0000:3c:01.0; do head -c 4096 /dev/zero >"$root$switch$i/config"; done
	write $switch/0000:3c:00.0/0000:3d:00.0/iommu_group/type identity
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
	write /proc/sys/kernel/osrelease 6.8.0-45-generic
	write /usr/lib64/libcudart.so.13.0.96 x
	ln -s libcudart.so.13.0.96 "$root/usr/lib64/libcudart.so.13"
	in_namespace "$interfaces" NCCL_IB_HCA=mlx5_0 CONDA_PREFIX=/opt/conda/envs/env1
	finds port ok mlx5_0:1
	finds way ok "PIX, GPUDirect RDMA by dma-buf"
	finds runtime ok 13.0.96
	# The limit of locked memory is that of the real host.
	if [ -z "$(findings memlock)" ]; then status_is 0; fi
	bad=$(grep -B3 -E '"level": "(warning|error)"' "$work/json" | grep '"id"' | grep -v memlock)
	[ -z "$bad" ] || fail "alarms on a clean host: $bad"
	rm -r "${root:?}"/{usr,opt,sys,proc,dev}
	mkdir -p "$root/sys/class"
	in_namespace "$interfaces"
	status_is 0
}
