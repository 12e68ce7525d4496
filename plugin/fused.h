/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused devices: NICs that NCCL uses as one (makeVDevice, net-api.md §3.12). In NCCL's list they follow the
 * NICs, in the order in which they were made. They are never freed: NCCL may use the index of one that it made before
 * it unloaded and reloaded the plugin.
 */
#ifndef ANYNET_FUSED_H
#define ANYNET_FUSED_H

#include <nccl_net/config.h>
#include <nccl_net/device.h>

/* The number of fused devices since fused_restart. Any thread. */
int fused_count(void);

/* Fused device `i`, also one from before fused_restart; NULL = there is none. Never freed. Any thread. */
const struct anynet_device *fused_at(int i);

/* --- under the core's lock --- */

/*
 * Fuse the `count` NICs with these indices, at most `most` (up to ANYNET_MEMBERS_MAX). Returns the index of the new
 * device in NCCL's list. -EINVAL, with one log line: they cannot be fused; -ENOMEM. A failure changes nothing. Each
 * call adds an entry to NCCL's list, as NCCL expects, also for a single NIC: once there is one new entry, NCCL 2.24 to
 * 2.26 uses no others. Entries of the same NICs share one struct; that of a single NIC is the NIC's own. If the list is
 * full, a single NIC is its own entry.
 */
int fused_make(const struct anynet_config *cfg, const struct anynet_device *nics, int nic_count,
	       const int *indices, int count, int most);

/* NCCL has loaded the plugin, perhaps again: restart fused_count at 0. `keep`: another NCCL in this process may use the
 * indices so far. They keep their devices, and this NCCL's list has those as well that lie between its own. */
void fused_restart(bool keep);

#endif
