/* SPDX-License-Identifier: Apache-2.0 */
/* How NCCL's releases choose a plugin: which table they take and how they apply the name filter of
 * NCCL_NET (net-api.md §2.3 - §2.6). */
#ifndef TESTS_SUPPORT_NCCL_RULES_H
#define TESTS_SUPPORT_NCCL_RULES_H

#include <driver.h>
#include <stdbool.h>
#include <stddef.h>
#include <tools/check/ranges.h>

struct nccl_release {
	char version[16];
	const struct release_range *range;
	int abi_newest, abi_oldest; /* known tables that it looks for, newest first */
	bool filters_before_init;
	int only_abi; /* the only table that the plugin is treated as having; 0 = as it is */
};

/* Releases with different behaviour, oldest first; false: no more. */
bool nccl_release(size_t index, struct nccl_release *release);

/* Result of offering a plugin to a release. */
struct nccl_choice {
	struct driver_net *driver; /* table used; NULL = the release knows none */
	void *ctx;
	int device_count;
	const char *name;    /* name by which NCCL knows it */
	const char *refused; /* why it is not used; NULL = it is */
};

/* Load, filter, init and devices in the release's order. `filter` is NCCL_NET, NULL = unset. */
void nccl_choose(const struct nccl_release *release, const char *spec, const char *filter,
		 driver_logger logger, struct nccl_choice *choice);

#endif
