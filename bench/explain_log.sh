#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A log as 16 ranks write it with NCCL_DEBUG=INFO, on the standard output; the harmless lines of a start
# come once for each 64 KB or so. Usage: explain_log.sh MEGABYTES
set -euo pipefail
awk -v bytes="$((${1:?usage: explain_log.sh MEGABYTES} * 1000000))" '
function say(rank, text,    line) {
	line = sprintf("node%d:%d:%d [%d] NCCL INFO %s", rank / 8 + 1, 4000 + rank, 4100 + rank,
		rank % 8, text)
	block = block line "\n"
}
BEGIN {
	for (rank = 0; rank < 16; rank++) {
		say(rank, "NET/Plugin: No plugin found (libnccl-net.so)")
		say(rank, "Failed to open libibverbs.so[.1]")
		say(rank, "NET/Socket : Using [0]eth0:10.0.0." rank / 8 + 1 "<0>")
		say(rank, "Using network Socket")
		say(rank, "comm 0x55d5c8a0 rank " rank " nRanks 16 nNodes 2 localRanks 8 localRank " rank % 8 " MNNVL 0")
		say(rank, "Setting affinity for GPU " rank % 8 " to ffff,ffffffff")
		for (channel = 0; channel < 24; channel++) {
			say(rank, sprintf("Channel %02d/24 :    0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15", channel))
			say(rank, sprintf("Channel %02d/0 : %d[%d] -> %d[%d] [send] via NET/Socket/0/Shared", channel, rank, rank % 8, (rank + 1) % 16, (rank + 1) % 8))
			say(rank, sprintf("Channel %02d/0 : %d[%d] -> %d[%d] via P2P/CUMEM/read", channel, rank, rank % 8, (rank + 1) % 16, (rank + 1) % 8))
		}
		say(rank, "Connected all rings, use ring PXN 0 GDR 0")
		say(rank, "threadThresholds 8/8/64 | 128/8/64 | 512 | 512")
		for (op = 0; op < 40; op++)
			say(rank, sprintf("AllReduce: opCount %x sendbuff 0x7f01c0000000 recvbuff 0x7f01c0000000 count 1048576 datatype 7 op 0 root 0 comm 0x55d5c8a0 [nranks=16] stream 0x55d5c1f0", op))
	}
	for (n = 0; n < bytes; n += length(block))
		printf "%s", block
}'
