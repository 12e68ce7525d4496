/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, opened at run time; see verbs.h. */
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#define ENTRY(function)                                                                 \
	{                                                                               \
		"ibv_" #function, offsetof(struct verbs, function), "IBVERBS_1.1", true \
	}

/*
 * What a usable libibverbs has, and what a newer one may have. Every function of 1.1 also exists as
 * @IBVERBS_1.0 with other types, so the version is part of the name (net-api.md §6 trap 6).
 */
static const struct symbol {
	const char *name;
	size_t offset; /* in struct verbs */
	const char *version;
	bool needed;
} symbols[] = {
	ENTRY(get_device_list),
	ENTRY(free_device_list),
	ENTRY(get_device_name),
	ENTRY(open_device),
	ENTRY(close_device),
	ENTRY(query_device),
	ENTRY(query_port),
	ENTRY(query_gid),
	ENTRY(alloc_pd),
	ENTRY(dealloc_pd),
	ENTRY(reg_mr),
	ENTRY(dereg_mr),
	ENTRY(create_cq),
	ENTRY(destroy_cq),
	ENTRY(create_qp),
	ENTRY(modify_qp),
	ENTRY(query_qp),
	ENTRY(destroy_qp),
	ENTRY(get_async_event),
	ENTRY(ack_async_event),
	{ "ibv_fork_init", offsetof(struct verbs, fork_init), "IBVERBS_1.1", false },
	{ "ibv_reg_mr_iova2", offsetof(struct verbs, reg_mr_iova2), "IBVERBS_1.8", false },
	{ "ibv_query_ece", offsetof(struct verbs, query_ece), "IBVERBS_1.10", false },
	{ "ibv_set_ece", offsetof(struct verbs, set_ece), "IBVERBS_1.10", false },
	{ "_ibv_query_gid_table", offsetof(struct verbs, query_gid_table), "IBVERBS_1.11", false },
	{ "ibv_reg_dmabuf_mr", offsetof(struct verbs, reg_dmabuf_mr), "IBVERBS_1.12", false },
	{ "ibv_query_port_speed", offsetof(struct verbs, query_port_speed), "IBVERBS_1.16", false },
};

static void keep(struct verbs *verbs, size_t offset, void *address)
{
	/* ISO C knows no conversion from a data pointer to a function pointer; POSIX has the bytes
	 * be the same. */
	memcpy((char *)verbs + offset, &address, sizeof(address));
}

/* Count of missing functions; `why` names them as far as it goes. */
static size_t fill(struct verbs *verbs, char *why, size_t why_bytes)
{
	size_t missing = 0, used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *address = dlvsym(verbs->library, symbols[i].name, symbols[i].version);

		keep(verbs, symbols[i].offset, address);
		if (address || !symbols[i].needed)
			continue;
		if (used < why_bytes)
			used += (size_t)snprintf(why + used, why_bytes - used, "%s%s@%s",
						 missing ? ", " : "", symbols[i].name,
						 symbols[i].version);
		missing++;
	}
	return missing;
}

int verbs_open(const char *file, struct verbs *verbs, char *why, size_t why_bytes)
{
	char missing[160];

	*verbs = (struct verbs){ .library = dlopen(file, RTLD_NOW | RTLD_LOCAL) };
	if (!verbs->library) {
		const char *error = dlerror();

		snprintf(why, why_bytes, "%s", error ? error : file);
		return -ENOENT;
	}
	if (!fill(verbs, missing, sizeof(missing)))
		return 0;
	snprintf(why, why_bytes, "%s lacks %s", file, missing);
	verbs_close(verbs);
	return -ENOSYS;
}

void verbs_close(struct verbs *verbs)
{
	if (verbs->library)
		dlclose(verbs->library);
	*verbs = (struct verbs){ .library = NULL };
}
