/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages, in the role of NCCL's progress thread (net-api.md §3.5): every comm has a queue of transfers, which are
 * posted in order, several ahead, and tested oldest first. Checked at every call: the request is always written, done
 * is 0 or 1, sizes are written only when it is 1 and never exceed the posted size.
 */
#ifndef TESTS_SUPPORT_FLOW_H
#define TESTS_SUPPORT_FLOW_H

#include "harness.h"

#define FLOW_GROUP_MAX    8
#define FLOW_WINDOW_NCCL  8 /* steps that NCCL keeps in flight (net-api.md §1.5) */
#define FLOW_REQUESTS_MAX 32

/* One send, or one receive of n buffers. */
struct transfer {
	int n; /* 1 for a send */
	void *data[FLOW_GROUP_MAX];
	size_t bytes[FLOW_GROUP_MAX]; /* bytes to send, or room */
	int tags[FLOW_GROUP_MAX];
	void *mhandles[FLOW_GROUP_MAX];
	void *phandles[FLOW_GROUP_MAX]; /* all NULL = NULL array */
	bool no_sizes;                  /* test with sizes = NULL */
	bool optional;                  /* v9+: NCCL's optional-completion marker in *request */

	void *comm; /* comm on which it is posted */
	bool is_send;
	void *used[FLOW_GROUP_MAX]; /* mhandles, and those of memory_mhandle */
	bool flushing, flushed;     /* it has arrived in GPU memory; req is that of the flush */
	void *req;                  /* NULL = not posted */
	int sizes[FLOW_GROUP_MAX];  /* valid when done */
	bool done;
};

struct flow {
	void *comm;
	bool is_send;
	struct transfer *transfers;
	size_t count;
	size_t window; /* maximum posted at a time; 0 = FLOW_WINDOW_NCCL */
	/* Called before transfer `index` is first posted, and when it is done. */
	void (*prepare)(struct flow *flow, size_t index);
	void (*finish)(struct flow *flow, size_t index);
	void *arg;

	size_t prepared, posted, done;
	int error; /* result of isend, irecv or test; an error stops the flow */
};

struct transfer transfer_of(void *data, size_t bytes, int tag, void *mhandle);

/* Posts one; returns the result. transfer->req stays NULL if there was no room. */
int transfer_post(struct test_net *net, void *comm, bool is_send, struct transfer *transfer);

/* Posts one for which there is room. Retries if isend or irecv returns no request: a thread of the plugin may be using
 * the comm. */
void transfer_post_soon(struct test_net *net, void *comm, bool is_send, struct transfer *transfer);

/* Tests a posted one; returns the result. A receive in GPU memory is done after its flush. */
int transfer_test(struct test_net *net, struct transfer *transfer);

/* One step: posts what the window allows, tests the oldest. True if all are done. */
bool flow_step(struct test_net *net, struct flow *flow);

/* Steps all flows in rotation until all are done. An error fails the test. */
void flows_run(struct test_net *net, struct flow *flows, size_t count);

/* Steps until at least `wanted` transfers of `flow` are posted (done); the others progress, too. */
void flows_run_until_posted(struct test_net *net, struct flow *flows, size_t count,
			    const struct flow *flow, size_t wanted);

/* Steps until `flow` has failed; returns the error. */
int flows_run_until_error(struct test_net *net, struct flow *flows, size_t count,
			  const struct flow *flow);

void *flow_reg(struct test_net *net, void *comm, void *data, size_t bytes); /* a handle of memory_reg */

#endif
