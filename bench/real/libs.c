/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libnccl and libcudart, and their functions; see libs.h. */
#include "libs.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/net/driver.h"

struct symbol {
	const char *name;
	size_t offset; /* offset of the function pointer in struct libs */
	bool optional;
};

#define NCCL(field, symbol)                                      \
	{                                                        \
		symbol, offsetof(struct libs, nccl.field), false \
	}
#define CUDA(field, symbol)                                      \
	{                                                        \
		symbol, offsetof(struct libs, cuda.field), false \
	}

static const struct symbol nccl_symbols[] = {
	NCCL(get_version, "ncclGetVersion"),
	NCCL(get_error_string, "ncclGetErrorString"),
	NCCL(get_unique_id, "ncclGetUniqueId"),
	NCCL(comm_init_rank, "ncclCommInitRank"),
	NCCL(comm_destroy, "ncclCommDestroy"),
	NCCL(comm_abort, "ncclCommAbort"),
	NCCL(comm_get_async_error, "ncclCommGetAsyncError"),
	NCCL(group_start, "ncclGroupStart"),
	NCCL(group_end, "ncclGroupEnd"),
	NCCL(all_reduce, "ncclAllReduce"),
	NCCL(all_gather, "ncclAllGather"),
	NCCL(reduce_scatter, "ncclReduceScatter"),
	NCCL(broadcast, "ncclBroadcast"),
	NCCL(send, "ncclSend"),
	NCCL(recv, "ncclRecv"),
	{ "ncclCommSplit", offsetof(struct libs, nccl.comm_split), true },
	{ "ncclCommRegister", offsetof(struct libs, nccl.comm_register), true },
	{ "ncclCommDeregister", offsetof(struct libs, nccl.comm_deregister), true },
};

static const struct symbol cuda_symbols[] = {
	CUDA(get_error_string, "cudaGetErrorString"),
	CUDA(get_device_count, "cudaGetDeviceCount"),
	CUDA(set_device, "cudaSetDevice"),
	CUDA(device_synchronize, "cudaDeviceSynchronize"),
	CUDA(mem_get_info, "cudaMemGetInfo"),
	CUDA(malloc, "cudaMalloc"),
	CUDA(free, "cudaFree"),
	CUDA(memcpy, "cudaMemcpy"),
	CUDA(memset, "cudaMemset"),
	CUDA(stream_create, "cudaStreamCreateWithFlags"),
	CUDA(stream_destroy, "cudaStreamDestroy"),
	CUDA(stream_query, "cudaStreamQuery"),
};

/* Tried in this order; the first that opens is used. */
static const char *const cuda_places[] = {
	"libcudart.so",
	"libcudart.so.13",
	"libcudart.so.12",
	"libcudart.so.11.0",
	"/usr/local/cuda*/lib64/libcudart.so",
	"/usr/local/cuda*/lib/libcudart.so",
	"/usr/local/cuda*/lib*/libcudart.so.1*",
	"/usr/local/lib/python3*/*-packages/nvidia/cuda_runtime/lib/libcudart.so.1*",
};

static void *open_place(const char *place)
{
	void *lib = NULL;
	glob_t files;

	if (!strchr(place, '*'))
		return dlopen(place, RTLD_NOW | RTLD_LOCAL);
	if (glob(place, 0, NULL, &files))
		return NULL;
	for (size_t i = 0; !lib && i < files.gl_pathc; i++)
		lib = dlopen(files.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
	globfree(&files);
	return lib;
}

static int open_nccl(const char *file, void *lib)
{
	*(void **)lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	return *(void **)lib ? 0 : -1;
}

static void *find_nccl(void)
{
	void *lib = NULL;

	driver_each_libnccl(open_nccl, &lib);
	return lib;
}

static void *find_cuda(void)
{
	void *lib = NULL;

	for (size_t i = 0; !lib && i < ARRAY_SIZE(cuda_places); i++)
		lib = open_place(cuda_places[i]);
	return lib;
}

static const struct library {
	const char *name;
	void *(*find)(void);
	const struct symbol *symbols;
	size_t symbol_count;
} nccl_library = { "libnccl.so.2", find_nccl, nccl_symbols, ARRAY_SIZE(nccl_symbols) },
  cuda_library = { "libcudart.so", find_cuda, cuda_symbols, ARRAY_SIZE(cuda_symbols) };

/* `file`: that one and no other; NULL = wherever it is usually installed. */
static void *open_one(const struct library *library, const char *file, char *err, size_t err_bytes)
{
	void *lib = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : library->find();

	if (!lib && file)
		snprintf(err, err_bytes, "%s: %s", library->name, dlerror());
	else if (!lib)
		snprintf(err, err_bytes,
			 "%s not found on the library search path, nor where CUDA and Python install it",
			 library->name);
	return lib;
}

static int resolve(struct libs *libs, void *lib, const struct library *library, const char *path,
		   char *err, size_t err_bytes)
{
	for (size_t i = 0; i < library->symbol_count; i++) {
		const struct symbol *symbol = &library->symbols[i];
		void *found = dlsym(lib, symbol->name);

		if (!found && !symbol->optional) {
			snprintf(err, err_bytes, "%s has no %s", path, symbol->name);
			return -1;
		}
		memcpy((char *)libs + symbol->offset, &found, sizeof(found));
	}
	return 0;
}

static void say_path(void *lib, char *path, size_t bytes)
{
	struct link_map *map;

	if (!dlinfo(lib, RTLD_DI_LINKMAP, &map))
		snprintf(path, bytes, "%s", map->l_name);
}

int libs_open(struct libs *libs, const char *nccl, const char *cuda, char *err, size_t err_bytes)
{
	void *lib;

	*libs = (struct libs){ 0 };
	lib = open_one(&cuda_library, cuda, err, err_bytes);
	if (!lib)
		return -1;
	say_path(lib, libs->cuda_path, sizeof(libs->cuda_path));
	if (resolve(libs, lib, &cuda_library, libs->cuda_path, err, err_bytes))
		return -1;
	if (!nccl)
		nccl = getenv("ANYNET_LIBNCCL");
	lib = open_one(&nccl_library, nccl && *nccl ? nccl : NULL, err, err_bytes);
	if (!lib)
		return -1;
	say_path(lib, libs->nccl_path, sizeof(libs->nccl_path));
	return resolve(libs, lib, &nccl_library, libs->nccl_path, err, err_bytes);
}
