/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pythons of a host and the packages in them that bring or use NCCL, found by their files alone:
 * no Python is run and nothing is imported.
 */
#ifndef CHECK_PYTHON_H
#define CHECK_PYTHON_H

#include "host.h"

/* A directory that Python imports packages from. */
struct python_site {
	char *path;   /* "/opt/venv/lib/python3.11/site-packages", links followed */
	char *prefix; /* "/opt/venv"; "" for an entry of PYTHONPATH */
	/* Wheels in it, as "nvidia-nccl-cu12 2.19.3", in the order of their names */
	struct text_list nccl_wheels;
};

struct python_sites {
	struct python_site *list; /* the active environment first, then in the order of PATH */
	size_t count;
};

struct python_sites python_find(const struct host *host);
void python_free(struct python_sites *sites);

/* The version of a distribution, by its name as in the directory "NAME-VERSION.dist-info"; the whole
 * name with its version in *full, if that is not NULL: both the caller's. NULL = it is not there. `name`
 * may be a beginning, which ends in '*'. */
char *python_distribution(const struct host *host, const char *site, const char *name, char **full);

#endif
