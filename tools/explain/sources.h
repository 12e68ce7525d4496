/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that wrote the log, as far as their lines say who they are. */
#ifndef EXPLAIN_SOURCES_H
#define EXPLAIN_SOURCES_H

#include "origin.h"

/* Most that are told apart; what comes then counts as source 0, "somebody". */
#define SOURCES_MAX 32768

struct source {
	char host[ORIGIN_HOST]; /* "" = not known */
	int pid;                /* 0 = not known */
	int device;             /* -1 = not known */
	int rank;               /* -1 = not known */
	unsigned hash;          /* of what it is found by */
	int rank_of; /* size of the communicator that the rank is of; 0 = the launcher's word */
};

struct sources {
	struct source *list;
	unsigned count, room;
	unsigned *table; /* hash -> index + 1 */
	unsigned table_size;
};

void sources_init(struct sources *sources);

void sources_free(struct sources *sources);

/* The number of who wrote the line; 0 if it does not say. */
unsigned sources_find(struct sources *sources, const struct origin *origin);

/* Source `number` has said that it is `rank` in a communicator of `of`. The largest one counts. */
void sources_set_rank(struct sources *sources, unsigned number, int rank, int of);

#endif
