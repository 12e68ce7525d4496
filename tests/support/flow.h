/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages, in the role of NCCL's progress thread (net-api.md §3.5): every comm has a queue of
 * transfers, which are posted in order, some ahead, and tested oldest first. The loop checks what
 * holds for every call: the request is always written, done is 0 or 1, sizes are written only when
 * it is 1 and are never larger than what was posted.
 */
#ifndef TESTS_SUPPORT_FLOW_H
#define TESTS_SUPPORT_FLOW_H

#include "harness.h"

#define FLOW_GROUP_MAX    8
#define FLOW_WINDOW_NCCL  8 /* steps NCCL keeps in flight (net-api.md §1.5) */
#define FLOW_REQUESTS_MAX 32

/* One send, or one receive of n buffers. */
struct transfer {
	int n; /* 1 for a send */
	void *data[FLOW_GROUP_MAX];
	size_t bytes[FLOW_GROUP_MAX]; /* to send, or room */
	int tags[FLOW_GROUP_MAX];
	void *mhandles[FLOW_GROUP_MAX];
	void *phandles[FLOW_GROUP_MAX]; /* all NULL = NULL array */
	bool no_sizes;                  /* test with sizes = NULL */
	bool optional;                  /* v9+: NCCL's optional-completion marker in *request */

	void *comm; /* where it is posted */
	bool is_send;
	void *used[FLOW_GROUP_MAX]; /* mhandles, with those of memory_mhandle */
	bool flushing, flushed;     /* it has arrived in a GPU's memory; req is the flush's */
	void *req;                  /* NULL = not posted */
	int sizes[FLOW_GROUP_MAX];  /* once done */
	bool done;
};

struct flow {
	void *comm;
	bool is_send;
	struct transfer *transfers;
	size_t count;
	size_t window; /* most posted at a time; 0 = FLOW_WINDOW_NCCL */
	/* Called before transfer `index` is posted the first time, and when it is done. */
	void (*prepare)(struct flow *flow, size_t index);
	void (*finish)(struct flow *flow, size_t index);
	void *arg;

	size_t prepared, posted, done;
	int error; /* of isend, irecv or test; the flow stops */
};

struct transfer transfer_of(void *data, size_t bytes, int tag, void *mhandle);

/* Post one; the result. transfer->req stays NULL if there was no room. */
int transfer_post(struct test_net *net, void *comm, bool is_send, struct transfer *transfer);

/* Post one for which there is room. A refusal is no error at once: a thread of the plugin's own may
 * be at work on the comm just then. */
void transfer_post_soon(struct test_net *net, void *comm, bool is_send, struct transfer *transfer);

/* Test one that is posted; the result. A receive in a GPU's memory is done when it has been flushed. */
int transfer_test(struct test_net *net, struct transfer *transfer);

/* One turn: post what the window allows, test the oldest. True if there is nothing left to do. */
bool flow_step(struct test_net *net, struct flow *flow);

/* Turns of all flows, round and round, until all are done. An error fails the test. */
void flows_run(struct test_net *net, struct flow *flows, size_t count);

/* Turns until at least `wanted` transfers of `flow` are posted (done); the others move along. */
void flows_run_until_posted(struct test_net *net, struct flow *flows, size_t count,
			    const struct flow *flow, size_t wanted);

/* Turns until `flow` has failed; the error. */
int flows_run_until_error(struct test_net *net, struct flow *flows, size_t count,
			  const struct flow *flow);

void *flow_reg(struct test_net *net, void *comm, void *data, size_t bytes); /* memory_reg */

#endif
