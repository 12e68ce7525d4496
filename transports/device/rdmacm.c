/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm, opened at run time; see rdmacm.h. */
#include "device/rdmacm.h"

#include <dlfcn.h>

#include <nccl_net/util.h>

#include "base/library.h"

#define ENTRY(function, version)                                                      \
	{                                                                             \
		"rdma_" #function, offsetof(struct rdmacm, function), version, false, \
	}

/* All are required. Those of 1.2 (2018) are for queue pairs that librdmacm has not created. */
static const struct library_function functions[] = {
	ENTRY(create_event_channel, "RDMACM_1.0"),
	ENTRY(destroy_event_channel, "RDMACM_1.0"),
	ENTRY(get_cm_event, "RDMACM_1.0"),
	ENTRY(ack_cm_event, "RDMACM_1.0"),
	ENTRY(event_str, "RDMACM_1.0"),
	ENTRY(create_id, "RDMACM_1.0"),
	ENTRY(destroy_id, "RDMACM_1.0"),
	ENTRY(set_option, "RDMACM_1.0"),
	ENTRY(bind_addr, "RDMACM_1.0"),
	ENTRY(listen, "RDMACM_1.0"),
	ENTRY(get_src_port, "RDMACM_1.0"),
	ENTRY(accept, "RDMACM_1.0"),
	ENTRY(reject, "RDMACM_1.0"),
	ENTRY(resolve_addr, "RDMACM_1.0"),
	ENTRY(resolve_route, "RDMACM_1.0"),
	ENTRY(connect, "RDMACM_1.0"),
	ENTRY(establish, "RDMACM_1.2"),
	ENTRY(init_qp_attr, "RDMACM_1.2"),
};

int rdmacm_open(const char *file, struct rdmacm *rdmacm, char *why, size_t why_bytes)
{
	return library_open(file, functions, ARRAY_SIZE(functions), rdmacm, why, why_bytes);
}

void rdmacm_close(struct rdmacm *rdmacm)
{
	if (rdmacm->library)
		dlclose(rdmacm->library);
	*rdmacm = (struct rdmacm){ .library = NULL };
}
