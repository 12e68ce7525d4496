/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, opened at run time; see verbs.h. */
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#define NOT_KEPT ((size_t)-1)

/*
 * What a usable libibverbs has. Every function of 1.1 also exists as @IBVERBS_1.0 with other types,
 * so the version is part of the name (net-api.md §6 trap 6).
 */
static const struct symbol {
	const char *name;
	size_t offset; /* in struct verbs; NOT_KEPT = only has to exist */
} symbols[] = {
	{ "ibv_get_device_list", offsetof(struct verbs, get_device_list) },
	{ "ibv_free_device_list", offsetof(struct verbs, free_device_list) },
	{ "ibv_get_device_name", offsetof(struct verbs, get_device_name) },
	{ "ibv_open_device", offsetof(struct verbs, open_device) },
	{ "ibv_close_device", offsetof(struct verbs, close_device) },
	{ "ibv_query_device", offsetof(struct verbs, query_device) },
	{ "ibv_query_port", offsetof(struct verbs, query_port) },
	{ "ibv_query_gid", offsetof(struct verbs, query_gid) },
	{ "ibv_alloc_pd", NOT_KEPT },
	{ "ibv_dealloc_pd", NOT_KEPT },
	{ "ibv_reg_mr", NOT_KEPT },
	{ "ibv_dereg_mr", NOT_KEPT },
	{ "ibv_create_cq", NOT_KEPT },
	{ "ibv_destroy_cq", NOT_KEPT },
	{ "ibv_create_qp", NOT_KEPT },
	{ "ibv_modify_qp", NOT_KEPT },
	{ "ibv_query_qp", NOT_KEPT },
	{ "ibv_destroy_qp", NOT_KEPT },
	{ "ibv_get_async_event", NOT_KEPT },
	{ "ibv_ack_async_event", NOT_KEPT },
};

static const char symbol_version[] = "IBVERBS_1.1";

static void keep(struct verbs *verbs, size_t offset, void *address)
{
	/* ISO C knows no conversion from a data pointer to a function pointer; POSIX has the bytes
	 * be the same. */
	if (offset != NOT_KEPT)
		memcpy((char *)verbs + offset, &address, sizeof(address));
}

/* Count of missing functions; `why` names them as far as it goes. */
static size_t fill(struct verbs *verbs, char *why, size_t why_bytes)
{
	size_t missing = 0, used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *address = dlvsym(verbs->library, symbols[i].name, symbol_version);

		keep(verbs, symbols[i].offset, address);
		if (address)
			continue;
		if (used < why_bytes)
			used += (size_t)snprintf(why + used, why_bytes - used, "%s%s@%s",
						 missing ? ", " : "", symbols[i].name,
						 symbol_version);
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
