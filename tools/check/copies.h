/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of NCCL on a host, and which of them PyTorch and CuPy load. */
#ifndef CHECK_COPIES_H
#define CHECK_COPIES_H

#include <sys/types.h>

#include "host.h"
#include "library.h"
#include "loader.h"
#include "python.h"

/* A file with NCCL in it; each file once, whatever its names. */
struct nccl_copy {
	char *path; /* the first name it was found by */
	char *real; /* links followed */
	struct nccl_version version;
	char *error; /* why it cannot be read; NULL = it can */
	dev_t dev;
	ino_t ino;
};

/* A package that calls NCCL. */
struct nccl_user {
	const char *name; /* "PyTorch", "CuPy" */
	char *version;    /* "2.4.0+cu121" */
	char *cuda;       /* that it was built for: "12.1"; "" = not known */
	const struct python_site *site;
	bool uses_nccl; /* false: it was built without */
	char *path;     /* the copy that it loads; NULL = it has NCCL inside, or finds none */
	struct nccl_version nccl; /* of that copy */
};

struct nccl_copies {
	struct python_sites sites;
	struct nccl_copy *list;
	size_t count;
	char *by_default; /* what the dynamic loader takes for libnccl.so.2; NULL = nothing */
	struct nccl_user *users;
	size_t user_count;
};

void copies_find(struct nccl_copies *copies, const struct loader *loader);
void copies_free(struct nccl_copies *copies);

/* The copy with this path or another name of the same file; NULL = there is none. */
const struct nccl_copy *copies_at(const struct nccl_copies *copies, const struct host *host,
				  const char *path);

/* Is there a copy, of any origin, from release `from` up to and with `to`? */
bool copies_in_range(const struct nccl_copies *copies, int from, int to);

/* Add a file if it is NCCL's and new. Returns its copy or NULL. */
const struct nccl_copy *copies_add(struct nccl_copies *copies, const struct host *host,
				   const char *path);

/* Fill copies->users; copies->sites are there. */
void copies_find_users(struct nccl_copies *copies, const struct loader *loader);

#endif
