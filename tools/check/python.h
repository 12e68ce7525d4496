/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python installations of a host and their packages that contain or use NCCL. Only files are read:
 * no Python is run and nothing is imported.
 */
#ifndef CHECK_PYTHON_H
#define CHECK_PYTHON_H

#include "host.h"

/* A directory from which Python imports packages. */
struct python_site {
	const char *path;   /* "/opt/venv/lib/python3.11/site-packages", with links resolved */
	const char *prefix; /* "/opt/venv"; "" for an entry of PYTHONPATH */
	bool active;        /* programs of this environment import from it */
	/* Wheels in it, sorted by name: "nvidia-nccl-cu12 2.19.3" */
	struct text_list nccl_wheels;
};

struct python_sites {
	struct python_site *list; /* the active ones first: PYTHONPATH, the environment */
	size_t count;
};

struct python_sites python_find(const struct host *host);

/* Returns the version of a distribution, by `name` as in the directory "NAME-VERSION.dist-info"; a
 * final '*' matches any ending. NULL = not installed. */
const char *python_distribution(const struct host *host, const char *site, const char *name);

#endif
