/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the fake libibverbs: what it describes (fake_verbs.c, with the language of
 * FAKE_VERBS), and queue pairs that write to themselves (fake_verbs_data.c). */
#ifndef TESTS_UNIT_FAKE_VERBS_H
#define TESTS_UNIT_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_PORTS_MAX 4
#define FAKE_GIDS_MAX  8
#define FAKE_GID_TABLE 16

struct fake_port {
	int error, layer, state, lid, gid;
	int gid_count;
	struct ibv_gid_entry gids[FAKE_GIDS_MAX];
};

/* Steps of a queue pair's life that can fail. */
enum fake_step {
	FAKE_PD,
	FAKE_MR,
	FAKE_CQ,
	FAKE_QP,
	FAKE_INIT,
	FAKE_RTR,
	FAKE_RTS,
	FAKE_RECV,
	FAKE_SEND,
	FAKE_POLL,
	FAKE_STEPS,
};

struct fake_device {
	struct ibv_device device; /* first */
	int open_error, query_error, port_count;
	unsigned long long guid;
	int errors[FAKE_STEPS]; /* errno, 0 = it works */
	int status;             /* of every completion */
	bool silent;            /* nothing ever completes */
	bool garbles;           /* other bytes arrive than were written */
	bool clamps, ignores_inline, garbles_inline;
	struct fake_port ports[FAKE_PORTS_MAX];
};

struct fake_device *fake_of(struct ibv_context *context);

/* Point the context's own functions at those of fake_verbs_data.c. Not there in the fake that lacks
 * them. */
void fake_verbs_data_ops(struct ibv_context *context) __attribute__((weak));

/* For tests, by dlsym. */
int fake_verbs_open_count(void);   /* devices that are open */
int fake_verbs_list_count(void);   /* lists that are not freed */
int fake_verbs_object_count(void); /* PDs, MRs, CQs and QPs that are there */
int fake_verbs_proof_count(void);  /* RDMA WRITEs in all */
int fake_verbs_gid_count(void);    /* GIDs that were asked for one by one, in all */

#endif
