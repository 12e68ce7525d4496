/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nets built into a real libnccl.so.2. Their tables are local symbols, which dlsym does not see. They
 * are looked up in the file's .symtab and found in memory by the library's load address.
 *
 * NCCL's Socket net calls cudaGetDevice in connect and accept, only to pass the number to its helper
 * threads. The CUDA runtime is linked into libnccl, and the call fails on a host without a driver. This
 * process uses host memory only, so the library's private copy of cudaGetDevice is patched to return
 * device 0.
 */
#include "driver_internal.h"
#include "elf_file.h"
#include "nccl_version.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* NCCL 2.28 and 2.29 have built-ins as v11 tables (net-api.md §1.1) of this size (§1.3). */
#define BUILTIN_ABI         11
#define BUILTIN_TABLE_BYTES 176
#define BUILTIN_MAJOR       2
#define BUILTIN_MINOR_MIN   28
#define BUILTIN_MINOR_MAX   29

/* Symbols of a libnccl.so.2, as offsets from its load address. */
struct builtin_symbols {
	uint64_t table;
	uint64_t cuda_get_device; /* 0 = not linked in */
	uint64_t cuda_get_device_bytes;
};

/* Tried in this order, after the library search path. */
static const char *const places[] = {
	"/usr/local/cuda*/lib*/libnccl.so.2",
	"/usr/lib/*/libnccl.so.2",
	"/usr/lib64/libnccl.so.2",
	"$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	"$CONDA_PREFIX/lib/libnccl.so.2",
	"$CONDA_PREFIX/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	"$HOME/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
	"/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
};

int driver_lib_path(void *lib, char *path, size_t path_bytes, size_t *base)
{
	struct link_map *map;
	if (dlinfo(lib, RTLD_DI_LINKMAP, &map))
		return -1;
	char resolved[PATH_MAX];
	const char *name = realpath(map->l_name, resolved) ? resolved : map->l_name;
	snprintf(path, path_bytes, "%s", name);
	if (base)
		*base = map->l_addr;
	return 0;
}

static int check_release(const struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	const unsigned char *data;
	size_t bytes = elf_file_constants(elf, &data);
	int code = bytes ? nccl_version_in((const char *)data, bytes).code : 0;
	int major = code / 10000, minor = code / 100 % 100;

	if (!code) {
		snprintf(err, err_bytes, "%s does not contain its NCCL release", path);
		return -1;
	}
	if (major != BUILTIN_MAJOR || minor < BUILTIN_MINOR_MIN || minor > BUILTIN_MINOR_MAX) {
		snprintf(err, err_bytes,
			 "%s is NCCL %d.%d.%d; the layout of its built-in nets is known for "
			 "%d.%d to %d.%d only",
			 path, major, minor, code % 100, BUILTIN_MAJOR, BUILTIN_MINOR_MIN,
			 BUILTIN_MAJOR, BUILTIN_MINOR_MAX);
		return -1;
	}
	return 0;
}

static int read_symbols(const char *name, const char *path, struct builtin_symbols *symbols,
			char *err, size_t err_bytes)
{
	struct elf_file elf;
	char object[64];
	int ret = -1;

	if (elf_file_open(&elf, path, err, err_bytes))
		return -1;
	if (check_release(&elf, path, err, err_bytes))
		goto out;

	snprintf(object, sizeof(object), "ncclNet%s", strcmp(name, "IB") ? name : "Ib");
	const Elf64_Sym *table = elf_file_symbol(&elf, object, STT_OBJECT);
	if (!table) {
		snprintf(err, err_bytes, "%s has no symbol %s in .symtab (stripped?)", path,
			 object);
		goto out;
	}
	if (table->st_size != BUILTIN_TABLE_BYTES) {
		snprintf(err, err_bytes, "%s: %s has %llu bytes, but a v%d struct has %d", path,
			 object, (unsigned long long)table->st_size, BUILTIN_ABI,
			 BUILTIN_TABLE_BYTES);
		goto out;
	}
	symbols->table = table->st_value;
	const Elf64_Sym *cuda = elf_file_symbol(&elf, "cudaGetDevice", STT_FUNC);
	symbols->cuda_get_device = cuda ? cuda->st_value : 0;
	symbols->cuda_get_device_bytes = cuda ? cuda->st_size : 0;
	ret = 0;
out:
	elf_file_close(&elf);
	return ret;
}

/* x86-64 code of: *device = 0; return cudaSuccess. */
static const unsigned char answer_device_0[] = {
	0xc7, 0x07, 0x00, 0x00, 0x00, 0x00, /* movl $0, (%rdi) */
	0x31, 0xc0,                         /* xorl %eax, %eax */
	0xc3,                               /* ret */
};

static int patch_code(unsigned char *code, char *err, size_t err_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *start = code - (uintptr_t)code % page;
	size_t bytes = (size_t)(code - start) + sizeof(answer_device_0);

	if (!memcmp(code, answer_device_0, sizeof(answer_device_0)))
		return 0;
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE)) {
		snprintf(err, err_bytes, "cannot make libnccl's cudaGetDevice writable: %s",
			 strerror(errno));
		return -1;
	}
	memcpy(code, answer_device_0, sizeof(answer_device_0));
	if (mprotect(start, bytes, PROT_READ | PROT_EXEC)) {
		snprintf(err, err_bytes, "cannot make libnccl's cudaGetDevice executable: %s",
			 strerror(errno));
		return -1;
	}
	return 0;
}

static int answer_cuda(const struct builtin_symbols *symbols, size_t base, char *err,
		       size_t err_bytes)
{
#ifndef __x86_64__
	snprintf(err, err_bytes, "NCCL's built-in nets can be used on x86-64 only");
	return -1;
#endif
	if (!symbols->cuda_get_device)
		return 0;
	if (symbols->cuda_get_device_bytes < sizeof(answer_device_0)) {
		snprintf(err, err_bytes, "libnccl's cudaGetDevice is too short to be replaced");
		return -1;
	}
	return patch_code((unsigned char *)(base + symbols->cuda_get_device), err, err_bytes);
}

/* `file` is a path, or a name for the library search path. RTLD_NODELETE, because libnccl leaves
 * threads and exit handlers behind. */
static int try_file(const char *name, const char *file, struct driver_found *found, char *err,
		    size_t err_bytes)
{
	struct builtin_symbols symbols;
	size_t base;

	/* Check the file before loading it, if its path is known: loading several releases has side
	 * effects. */
	if (strchr(file, '/') && read_symbols(name, file, &symbols, err, err_bytes))
		return -1;
	found->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!found->lib) {
		snprintf(err, err_bytes, "%s", dlerror());
		return -1;
	}
	if (driver_lib_path(found->lib, found->path, sizeof(found->path), &base)) {
		snprintf(err, err_bytes, "cannot determine where %s was loaded from", file);
		goto err_close;
	}
	if (read_symbols(name, found->path, &symbols, err, err_bytes) ||
	    answer_cuda(&symbols, base, err, err_bytes))
		goto err_close;
	found->table = (const void *)(base + symbols.table);
	found->abi = BUILTIN_ABI;
	return 0;

err_close:
	dlclose(found->lib);
	found->lib = NULL;
	return -1;
}

/* Replaces a leading $VARIABLE. Returns false if it is unset or empty. */
static bool expand(const char *place, char *pattern, size_t bytes)
{
	if (*place != '$') {
		snprintf(pattern, bytes, "%s", place);
		return true;
	}
	const char *rest = strchr(place, '/');
	char variable[32];
	snprintf(variable, sizeof(variable), "%.*s", (int)(rest - place - 1), place + 1);
	const char *value = getenv(variable);
	if (!value || !*value)
		return false;
	snprintf(pattern, bytes, "%s%s", value, rest);
	return true;
}

int driver_each_libnccl(int (*try)(const char *file, void *arg), void *arg)
{
	int ret = try("libnccl.so.2", arg);

	for (size_t i = 0; ret && i < sizeof(places) / sizeof(places[0]); i++) {
		char pattern[PATH_MAX];
		glob_t files;

		if (!expand(places[i], pattern, sizeof(pattern)) || glob(pattern, 0, NULL, &files))
			continue;
		for (size_t k = 0; ret && k < files.gl_pathc; k++)
			ret = try(files.gl_pathv[k], arg);
		globfree(&files);
	}
	return ret;
}

struct search {
	const char *name;
	struct driver_found *found;
	char why[512]; /* reason for the last file */
};

static int try_next(const char *file, void *arg)
{
	struct search *s = arg;

	return try_file(s->name, file, s->found, s->why, sizeof(s->why));
}

int driver_builtin_find(const char *name, const char *path, struct driver_found *found, char *err,
			size_t err_bytes)
{
	struct search search = { .name = name, .found = found };

	if (strcmp(name, "Socket") && strcmp(name, "IB")) {
		snprintf(err, err_bytes, "nccl:%s: NCCL's built-in nets are Socket and IB", name);
		return -1;
	}
	if (!path)
		path = getenv("ANYNET_LIBNCCL");
	if (path && *path)
		return try_file(name, path, found, err, err_bytes);
	if (!driver_each_libnccl(try_next, &search))
		return 0;
	snprintf(err, err_bytes, "no usable libnccl.so.2 found (name one in ANYNET_LIBNCCL): %s",
		 search.why);
	return -1;
}
