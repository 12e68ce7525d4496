#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A stand-in for Python for bench/real/run.sh: has every module, trains nothing, logs what NCCL would log. Usage like
# python3; FAKE_PYTHON=differs|silent|fails|elsewhere|both makes one error.
[ "$1" != -c ] || exit 0
how=${FAKE_PYTHON:-}
net=anynet
[ "${NCCL_NET:-}" != Socket ] || net=Socket
channel='host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via'
[ "$how" = elsewhere ] || echo "$channel NET/$net/0" >"$NCCL_DEBUG_FILE"
[ "$how" != both ] || echo "$channel SHM/direct/direct" >>"$NCCL_DEBUG_FILE"
[ "$how" != fails ] || [ "$RANK" != 1 ] || exit 2
if [ "$RANK" = 0 ] && [ "$how" != silent ]; then
	printf 'loss %d 0x1.%dp+1\n' 0 7 1 5 2 4
	[ "$how" != differs ] || echo "loss 3 $net"
fi
exit 0
