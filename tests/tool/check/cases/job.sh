# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: NCCL, launchers and the first rank's address.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_nccl() {
	check
	finds nccl-none note libnccl.so
	# Every copy of NCCL, and which one is loaded, without importing anything.
	site=/opt/venv/lib/python3.11/site-packages
	plant "$fakes/libfake_nccl_2.17.1.so" /usr/lib64/libnccl.so.2
	plant "$fakes/libfake_nccl_2.19.3.so" $site/nvidia/nccl/lib/libnccl.so.2
	mkdir -p "$root$site/nvidia_nccl_cu12-2.19.3.dist-info"
	write $site/torch/version.py "__version__ = '2.2.0+cu121'" "debug = False" \
		"cuda: Optional[str] = '12.1'"
	plant "$fakes/libfake_torch_runpath.so" $site/torch/lib/libtorch_cuda.so
	check VIRTUAL_ENV=/opt/venv
	finds nccl-copy ok "2.17.1 for CUDA 12.0 in /usr/lib64/libnccl.so.2" "loader"
	finds nccl-copy ok "2.19.3 for CUDA 12.3 in $site/nvidia/nccl/lib/libnccl.so.2"
	finds user-loads ok "PyTorch 2.2.0+cu121" "loads NCCL 2.19.3" "$site/nvidia/nccl/lib"
	finds default-differs note PyTorch
	status_is 0
	# An old copy in LD_LIBRARY_PATH takes precedence over RUNPATH, but not over RPATH.
	plant "$fakes/libfake_nccl_2.14.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/nccl2/lib
	finds user-displaced warn "loads NCCL 2.14.3 for CUDA 11.7 from /usr/local/nccl2/lib" \
		"instead of 2.19.3" "family 0" "remove /usr/local/nccl2/lib from LD_LIBRARY_PATH"
	finds cuda-mixed warn "for CUDA 12.1" "for CUDA 11.7" nvidia-nccl-cu12
	plant "$fakes/libfake_torch_rpath.so" $site/torch/lib/libtorch_cuda.so
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/nccl2/lib
	finds user-loads ok "loads NCCL 2.19.3"
	finds_not user-displaced
	status_is 0
	# The same with the fix applied.
	check VIRTUAL_ENV=/opt/venv
	finds_not cuda-mixed
	# Wheels for two CUDA versions side by side.
	mkdir -p "$root$site/nvidia_nccl_cu11-2.14.3.dist-info"
	check VIRTUAL_ENV=/opt/venv
	finds wheels-mixed warn "nvidia-nccl-cu11 2.14.3, nvidia-nccl-cu12 2.19.3" "2.19.3 for CUDA" \
		"pip uninstall"
	rmdir "$root$site"/nvidia_nccl_cu1*
	mkdir "$root$site/nvidia_nccl_cu12-2.20.5.dist-info"
	check VIRTUAL_ENV=/opt/venv
	finds wheel-overwritten warn "nvidia-nccl-cu12 2.20.5" "NCCL 2.19.3" "nvidia-nccl-cu12==2.20.5"
	# CuPy with its own NCCL.
	rmdir "$root$site"/nvidia_nccl_cu1*
	mkdir "$root$site/cupy_cuda11x-13.4.0.dist-info"
	write $site/cupy/.data/_wheel.json '{ "cuda": "11.x", "nccl": { "version": "2.15.1",' \
		'"filenames": ["libnccl.so.2"] } }'
	plant "$fakes/libfake_cupy.so" $site/cupy_backends/cuda/libs/nccl.cpython-311.so
	check VIRTUAL_ENV=/opt/venv
	finds user-loads ok "CuPy 13.4.0" "loads NCCL 2.17.1" /usr/lib64/libnccl.so.2
	finds users-differ warn "PyTorch and CuPy" "one release of NCCL for both"
	plant "$fakes/libfake_nccl_2.15.1.so" /cuda_lib/11.x/nccl/2.15.1/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv CUPY_CUDA_LIB_PATH=/cuda_lib
	finds user-loads ok "CuPy 13.4.0" "loads NCCL 2.15.1 for CUDA 11.8" /cuda_lib/11.x
	# A conda environment outside of the usual places that is not active.
	conda=/scratch/envs/old/lib/python3.10/site-packages
	home=$(getent passwd "$(id -u)" | cut -d: -f6)
	plant "$fakes/libfake_nccl_2.14.3.so" $conda/nvidia/nccl/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv
	grep -q $conda "$work/json" && fail "found by itself"
	write "$home/.conda/environments.txt" "" relative/path /not/there /scratch/envs/old
	check VIRTUAL_ENV=/opt/venv
	finds nccl-copy ok "2.14.3 for CUDA 11.7 in $conda/nvidia/nccl/lib/libnccl.so.2"
	rm -r "$root/scratch" "$root$home"
	# PyTorch without any NCCL; files that are not libraries.
	rm -r "$root/usr/lib64" "$root$site/nvidia" "$root$site"/cupy*
	check VIRTUAL_ENV=/opt/venv
	finds user-finds-none warn PyTorch "12.1" nvidia-nccl-cu12
	write /usr/lib64/libnccl.so.2 "no library"
	check VIRTUAL_ENV=/opt/venv
	finds nccl-unreadable note "not an ELF file"
	rm "$root/usr/lib64/libnccl.so.2"
	ln -s libnccl.so.2 "$root/usr/lib64/libnccl.so.2"
	mkfifo "$root/usr/lib64/libnccl.so"
	check VIRTUAL_ENV=/opt/venv
	finds user-finds-none warn PyTorch
}

case_launcher() {
	# A job of several hosts needs a network interface.
	PATH=$PATH:/sbin:/usr/sbin
	if ! eval "$(nic eth0 192.0.2.1/24)" 2>/dev/null; then
		echo "SKIP this process may not make a network namespace"
		exit 77
	fi
	check
	finds launcher-none note "torchrun, Slurm or MPI"
	# A world size of 4 on a cluster of 2 hosts with 4 GPUs.
	address="MASTER_ADDR=192.0.2.9 MASTER_PORT=29500"
	# shellcheck disable=SC2086
	check RANK=7 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1 $address
	finds rank-too-large error "RANK=7 with WORLD_SIZE=4" "Invalid rank requested : 7/4"
	finds world-too-small error "WORLD_SIZE=4" "export WORLD_SIZE=8"
	status_is 2
	# shellcheck disable=SC2086
	check RANK=7 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1 $address
	finds layout ok "rank 7 of 8"
	finds_not rank-too-large
	finds_not world-too-small
	status_is 0
	# Lightning sets the other variables itself.
	check NODE_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4
	finds world-too-small error "export WORLD_SIZE=8"
	check RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1
	finds rank-layout warn "RANK=3" "result in 7"
	finds incomplete warn "MASTER_ADDR, MASTER_PORT"
	# Misspelt variables and values; other variables that torchrun and others set are correct.
	check RANK=0 WORLD_SIZE=1 MASTER_PROT=29500 MASTER_ADDRESS=192.0.2.9
	finds unknown-name warn "MASTER_PROT=29500" "export MASTER_PORT=29500; unset MASTER_PROT"
	finds unknown-name warn "MASTER_ADDR is meant" "export MASTER_ADDR=192.0.2.9"
	check GLOO_SOCKET_IFNAMES=eth0 WORLDSIZE=8 local_rank=1 TORCH_DISTRIBUTED_DEBUG=FULL
	finds unknown-name warn GLOO_SOCKET_IFNAMES= "GLOO_SOCKET_IFNAME is meant"
	finds unknown-name warn "export WORLD_SIZE=8"
	finds unknown-name warn "export LOCAL_RANK=1"
	finds bad-value warn "TORCH_DISTRIBUTED_DEBUG=FULL" "OFF|INFO|DETAIL"
	# shellcheck disable=SC2086
	check RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
		ROLE_RANK=0 ROLE_NAME=default ROLE_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none \
		TORCH_DISTRIBUTED_DEBUG=detail CUDA_DEVICE_ORDER=PCI_BUS_ID GLOBAL_RANK=0 \
		WORLDSIZE=1 HYDRA_LOCAL_RANK=0 SLURM_LOCALID=0 NODE_NAME=n CUDA_MODULE_LOADING=LAZY \
		$address
	finds_not unknown-name
	finds_not bad-value
	check LOCAL_RANK=4 LOCAL_WORLD_SIZE=4
	finds local-rank-too-large error "LOCAL_RANK=4"
	check RANK=one WORLD_SIZE=-2 SLURM_NTASKS=99999999999999999999
	finds no-number error "RANK=one"
	finds no-number error "WORLD_SIZE=-2"
	finds no-number error "SLURM_NTASKS=9999"
	check SLURM_PROCID=5 SLURM_NTASKS=8 WORLD_SIZE=4
	finds launchers-differ warn "WORLD_SIZE=4" "Slurm has started 8" 'WORLD_SIZE=$SLURM_NTASKS'
	# shellcheck disable=SC2086
	check OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 RANK=2 WORLD_SIZE=8 $address
	finds launchers-differ warn "RANK=2" "OMPI_COMM_WORLD_RANK=5"
	# torchrun, started by Slurm, on hosts of one GPU each assigns ranks in the order in which the hosts arrive.
	# shellcheck disable=SC2086
	check SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NODEID=1 RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 \
		LOCAL_WORLD_SIZE=1 GROUP_RANK=0 TORCHELASTIC_RUN_ID=none $address
	finds_not launchers-differ
	# Round-robin ranks are valid from Slurm, and from torchrun on unequal hosts.
	check SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_NODEID=1 SLURM_NTASKS_PER_NODE=4 SLURM_LOCALID=0 \
		SLURM_NNODES=2
	status_is 0
	# shellcheck disable=SC2086
	check RANK=8 WORLD_SIZE=9 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=1 GROUP_WORLD_SIZE=2 \
		TORCHELASTIC_RUN_ID=none $address
	status_is 0
	check SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_NODEID=1 SLURM_NTASKS_PER_NODE=4 SLURM_LOCALID=1 \
		SLURM_NNODES=2
	finds layout ok "Slurm: rank 5 of 8"
	status_is 0
}

case_master() {
	job="RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4"
	here=$(nic eth0 192.0.2.1/24)
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
	finds master-loopback error "several hosts" "address of rank 0's host"
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.1 MASTER_PORT=29500
	finds master ok "this host"
	finds port ok "29500 is free"
	status_is 0
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.2 MASTER_PORT=29500
	finds master-elsewhere warn "not an address of this host"
	in_namespace "$here" NODE_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 MASTER_ADDR=192.0.2.1 \
		MASTER_PORT=29500
	finds master-here warn "host 1 of the job"
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.1 MASTER_PORT=70000
	finds port-invalid error "MASTER_PORT=70000"
	# Without a name server, with one that does not answer, and with the definite answer that there is no such name.
	if unshare -rm true 2>/dev/null && [ -e /etc/nsswitch.conf ]; then
		printf '%s\n' '#!/bin/sh' "exec unshare -m sh -c 'mount --bind $work/nsswitch.conf /etc/nsswitch.conf &&
			mount --bind $work/resolv.conf /etc/resolv.conf && exec \"\$@\"' -- \"\$@\"" >"$work/resolving"
		chmod +x "$work/resolving"
		resolves() { # LINE_OF_NSSWITCH TEXT_OF_RESOLV_CONF [NAME]
			echo "$1" >"$work/nsswitch.conf"
			echo "$2" >"$work/resolv.conf"
			as=$work/resolving
			# shellcheck disable=SC2086
			in_namespace "$here" $job MASTER_ADDR=${3-no-such-host.invalid} MASTER_PORT=29500
			as=
		}
		resolves "hosts: dns" "nameserver 127.0.0.1"
		finds master-unanswered warn no-such-host.invalid "IP address"
		finds_not master-unresolved
		resolves "hosts: dns" "nameserver 192.0.2.99"
		finds master-unanswered warn "no name server has answered in 6 s" "ask again"
		resolves "hosts: dns files" $'nameserver 192.0.2.99\noptions timeout:3 attempts:1' localhost
		finds master-slow warn "more than 2 s" MASTER_ADDR=localhost
		finds master-loopback error localhost
		resolves "hosts: files" "nameserver 127.0.0.1"
		finds master-unresolved error no-such-host.invalid "IP address"
	fi
	# Another program uses the port.
	# shellcheck disable=SC2086
	in_namespace "$here
		$build/tests/tool/check/listener 192.0.2.1 >'$work/port' & listener=\$!
		until [ -s '$work/port' ]; do kill -0 \$listener; sleep 0.01; done
		trap 'kill \$listener' EXIT
		set -- MASTER_PORT=\$(cat '$work/port') \"\$@\"" $job MASTER_ADDR=192.0.2.1
	finds port-taken warn "already" "address already in use" "ss -ltnp"
}
