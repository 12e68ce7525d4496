/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the name in the exported symbols when the library is loaded. No later time is early enough for every NCCL. */
#include "abi.h"
#include "selector.h"

/* Runs inside dlopen, before NCCL's first dlsym (net-api.md §2.5). The string is static, so pointers that NCCL copies
 * stay valid. */
__attribute__((constructor)) static void abi_set_names(void)
{
	const char *name = anynet_selector_name();

	ncclNetPlugin_v5.name = name;
	ncclNetPlugin_v6.name = name;
	ncclNetPlugin_v7.name = name;
	ncclNetPlugin_v8.name = name;
	ncclNetPlugin_v9.name = name;
	ncclNetPlugin_v10.name = name;
	ncclNetPlugin_v11.name = name;
	ncclNetPlugin_v12.name = name;
}
