/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that wrote the log, as identified by the prefixes of their lines. */
#ifndef EXPLAIN_SOURCES_H
#define EXPLAIN_SOURCES_H

#include "origin.h"

/* Maximum number of sources. Source 0 stands for unknown processes and for all above the limit. */
#define SOURCES_MAX 32768

struct source {
	char host[ORIGIN_HOST]; /* "" = not known */
	int pid;                /* 0 = not known */
	int device;             /* -1 = not known */
	int rank;               /* -1 = not known */
	int rank_of; /* size of the communicator in which it has this rank; 0 = not known */
};

struct sources {
	struct source *list;
	unsigned count, room;
	unsigned *order; /* the numbers of all but source 0, sorted by what identifies a source */
};

void sources_init(struct sources *sources);

/* Returns the number of the source, which is added if it is new; 0 if the line does not identify it. */
unsigned sources_find(struct sources *sources, const struct origin *origin);

/* Source `number` has `rank` in a communicator of size `of` (-1 = not known). The rank in the largest communicator is kept. */
void sources_set_rank(struct sources *sources, unsigned number, int rank, int of);

#endif
