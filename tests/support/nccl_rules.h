/* SPDX-License-Identifier: Apache-2.0 */
/* How NCCL's releases choose a plugin: which table they take and how they apply the name filter of
 * NCCL_NET (net-api.md §1.1, §2.3 - §2.6). */
#ifndef TESTS_SUPPORT_NCCL_RULES_H
#define TESTS_SUPPORT_NCCL_RULES_H

#include <driver.h>
#include <stdbool.h>
#include <stddef.h>

struct nccl_release {
	const char *version;
	int abi_newest, abi_oldest; /* tables it looks for, newest first; of those we know */
	bool case_matters;          /* when it compares names */
	bool filters_before_init;
	bool rereads_name; /* a shim copies the name again after init, not only at the load */
};

/* One of each behaviour, oldest first. */
extern const struct nccl_release nccl_releases[];
extern const size_t nccl_release_count;

/* What came of offering a plugin to a release. */
struct nccl_choice {
	struct driver_net *driver; /* loaded; NULL = no table the release knows */
	void *ctx;
	int device_count;
	const char *name;    /* under which NCCL knows it */
	const char *refused; /* why it is not used; NULL = it is */
};

/* Load, filter, init and devices in the release's order. `filter` is NCCL_NET, NULL = unset. */
void nccl_choose(const struct nccl_release *release, const char *spec, const char *filter,
		 driver_logger logger, struct nccl_choice *choice);

#endif
