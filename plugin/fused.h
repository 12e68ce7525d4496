/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused devices: NICs that NCCL wants to use as one (makeVDevice, net-api.md §3.12). They lie behind
 * the NICs in NCCL's list, in the order in which they were made, and are never taken away: NCCL may use
 * the index of one that it has made in an earlier life of the plugin.
 */
#ifndef ANYNET_FUSED_H
#define ANYNET_FUSED_H

#include <nccl_net/config.h>
#include <nccl_net/device.h>

/* How many there are for NCCL. Any thread. */
int fused_count(void);

/* Number `i` of all that NCCL may name; NULL = none. Any thread. Immortal. */
const struct anynet_device *fused_at(int i);

/* --- under the core's lock --- */

/*
 * One device of `count` of these NICs, given by their indices. Returns NCCL's index of it (of one NIC
 * that is the NIC's), -EINVAL: no such device can be, said in one line, or -ENOMEM. A failure changes
 * nothing. Each call makes one more, as NCCL expects; of the same NICs it is the same struct.
 */
int fused_make(const struct anynet_config *cfg, const struct anynet_device *nics, int nic_count,
	       const int *indices, int count);

/* NCCL begins anew, and counts none before it makes some again. */
void fused_restart(void);

#endif
