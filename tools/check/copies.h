/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of NCCL on a host, and which of them PyTorch and CuPy load. */
#ifndef CHECK_COPIES_H
#define CHECK_COPIES_H

#include <sys/types.h>

#include "host.h"
#include "library.h"
#include "loader.h"
#include "python.h"

/* A file that contains NCCL. Files with several names are listed once. */
struct nccl_copy {
	const char *path; /* path by which it was found first */
	struct nccl_version version;
	const char *error; /* why it cannot be read; NULL = readable */
	dev_t dev;
	ino_t ino;
};

/* A Python package that calls NCCL. */
struct nccl_user {
	const char *name;    /* "PyTorch", "CuPy" */
	const char *version; /* "2.4.0+cu121" */
	const char *cuda;    /* the version it was built for: "12.1"; "" = unknown */
	const struct python_site *site;
	bool uses_nccl;   /* false = built without NCCL */
	const char *path; /* the copy that it loads; NULL = NCCL is linked in, or not found */
	struct nccl_version nccl; /* of that copy, or linked in */
};

struct nccl_copies {
	struct python_sites sites;
	struct nccl_copy *list;
	size_t count;
	char *by_default; /* file that the dynamic loader finds for libnccl.so.2; NULL = none */
	struct nccl_user *users;
	size_t user_count;
};

void copies_find(struct nccl_copies *copies, const struct loader *loader);

/* Finds a copy by its path or another name of the same file; NULL = none. */
const struct nccl_copy *copies_at(const struct nccl_copies *copies, const struct host *host,
				  const char *path);

/* True if a copy or a user has a release in [from, to]. */
bool copies_in_range(const struct nccl_copies *copies, int from, int to);

/* Adds a regular file unless the list has it already. Returns its copy, or NULL. */
const struct nccl_copy *copies_add(struct nccl_copies *copies, const struct host *host,
				   const char *path);

/* Fills copies->users. copies->sites must be filled. */
void copies_find_users(struct nccl_copies *copies, const struct loader *loader);

#endif
