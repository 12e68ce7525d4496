/* SPDX-License-Identifier: Apache-2.0 */
/* Names the tables when the library is loaded: the one moment that every NCCL notices. */
#include "abi.h"
#include "selector.h"

/* Runs inside dlopen, before NCCL's first dlsym; see net-api.md §2.5. The string is static, so
 * pointers that NCCL copies stay good. */
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
