/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"
#include "memory.h"

#include <nccl_net/device.h>
#include <string.h>

/* Possible contents of a request variable and a size before a call (net-api.md §3.5: stale). */
#define STALE_REQUEST ((void *)(uintptr_t)0xdead0bad0dead0b0)
#define STALE_SIZE    (-7777)
#define OPTIONAL      ((void *)1)

struct transfer transfer_of(void *data, size_t bytes, int tag, void *mhandle)
{
	return (struct transfer){ .n = 1,
				  .data = { data },
				  .bytes = { bytes },
				  .tags = { tag },
				  .mhandles = { mhandle } };
}

static int post_recv(struct test_net *net, void *comm, struct transfer *transfer)
{
	bool profiled = false;

	for (int i = 0; i < transfer->n; i++)
		profiled = profiled || transfer->phandles[i];
	return driver_irecv(net->driver, comm,
			    &(struct driver_recv){ transfer->n, transfer->data, transfer->bytes,
						   transfer->tags, transfer->used,
						   profiled ? transfer->phandles : NULL },
			    &transfer->req);
}

int transfer_post(struct test_net *net, void *comm, bool is_send, struct transfer *transfer)
{
	int ret;

	transfer->comm = comm;
	transfer->is_send = is_send;
	transfer->flushing = transfer->flushed = false;
	for (int i = 0; i < transfer->n; i++)
		transfer->used[i] =
			memory_mhandle(net, comm, transfer->data[i], transfer->mhandles[i]);
	transfer->req = transfer->optional ? OPTIONAL : STALE_REQUEST;
	if (is_send)
		ret = driver_isend(net->driver, comm,
				   &(struct driver_send){ transfer->data[0], transfer->bytes[0],
							  transfer->tags[0], transfer->used[0],
							  transfer->phandles[0] },
				   &transfer->req);
	else
		ret = post_recv(net, comm, transfer);
	memory_check_thread();
	if (ret) {
		transfer->req = NULL;
		return ret;
	}
	check_that(transfer->req != STALE_REQUEST, "%s did not write the request",
		   is_send ? "isend" : "irecv");
	return 0;
}

void transfer_post_soon(struct test_net *net, void *comm, bool is_send, struct transfer *transfer)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a request to be taken");

	for (;;) {
		check_ok(transfer_post(net, comm, is_send, transfer));
		if (transfer->req)
			return;
		deadline_turn(&deadline);
	}
}

static void check_untouched(const int *sizes)
{
	for (int i = 0; i < FLOW_GROUP_MAX; i++)
		check_that(sizes[i] == STALE_SIZE, "test wrote sizes before it was done");
}

static void check_sizes(const struct transfer *transfer, const int *sizes)
{
	for (int i = 0; i < transfer->n; i++)
		check_that(sizes[i] >= 0 && (size_t)sizes[i] <= transfer->bytes[i],
			   "size %d of %d is %d where %zu bytes were posted", i, transfer->n,
			   sizes[i], transfer->bytes[i]);
	for (int i = transfer->n; i < FLOW_GROUP_MAX; i++)
		check_that(sizes[i] == STALE_SIZE, "test wrote %d sizes for n = %d", i + 1,
			   transfer->n);
}

/* Flushes data that the net has written to GPU memory (net-api.md §3.6). True while the flush is in progress. */
static bool flush_begin(struct test_net *net, struct transfer *transfer, int *ret)
{
	void *data[FLOW_GROUP_MAX], *mhandles[FLOW_GROUP_MAX];
	int n = 0;

	*ret = 0;
	if (transfer->is_send || transfer->optional)
		return false;
	for (int i = 0; i < transfer->n; i++) {
		if (!memory_is_device(transfer->data[i]) ||
		    (!transfer->no_sizes && !transfer->sizes[i]))
			continue;
		data[n] = transfer->data[i];
		mhandles[n++] = transfer->used[i];
	}
	if (!n)
		return false;
	transfer->req = STALE_REQUEST;
	*ret = driver_iflush(net->driver, transfer->comm,
			     &(struct driver_flush){ n, data, transfer->sizes, mhandles },
			     &transfer->req);
	check_that(*ret || transfer->req != STALE_REQUEST, "iflush did not write the request");
	transfer->flushing = !*ret && transfer->req;
	return transfer->flushing;
}

static int flush_test(struct test_net *net, struct transfer *transfer)
{
	int done = STALE_SIZE, ret = driver_test(net->driver, transfer->req, &done, NULL);

	if (ret)
		return ret;
	check_that(done == 0 || done == 1, "test set done to %d", done);
	transfer->done = done;
	transfer->flushing = !done;
	return 0;
}

static int receive_test(struct test_net *net, struct transfer *transfer)
{
	int sizes[FLOW_GROUP_MAX], done = STALE_SIZE;

	for (int i = 0; i < FLOW_GROUP_MAX; i++)
		sizes[i] = STALE_SIZE;
	int ret = driver_test(net->driver, transfer->req, &done, transfer->no_sizes ? NULL : sizes);
	if (ret)
		return ret;
	check_that(done == 0 || done == 1, "test set done to %d", done);
	transfer->done = done;
	if (transfer->no_sizes)
		return 0;
	if (!done) {
		check_untouched(sizes);
		return 0;
	}
	if (!transfer->optional)
		check_sizes(transfer, sizes);
	memcpy(transfer->sizes, sizes, sizeof(sizes));
	return 0;
}

int transfer_test(struct test_net *net, struct transfer *transfer)
{
	int ret = transfer->flushing ? flush_test(net, transfer) : receive_test(net, transfer);

	if (!ret && transfer->done && !transfer->flushed) {
		transfer->flushed = true;
		transfer->done = !flush_begin(net, transfer, &ret);
	}
	memory_check_thread();
	return ret;
}

bool flow_step(struct test_net *net, struct flow *flow)
{
	size_t window = flow->window ? flow->window : FLOW_WINDOW_NCCL;

	while (!flow->error && flow->posted < flow->count && flow->posted - flow->done < window) {
		struct transfer *next = &flow->transfers[flow->posted];
		if (flow->prepared == flow->posted) {
			flow->prepared++;
			if (flow->prepare)
				flow->prepare(flow, flow->posted);
		}
		flow->error = transfer_post(net, flow->comm, flow->is_send, next);
		if (!next->req)
			break;
		flow->posted++;
		turn_moved();
	}
	if (!flow->error && flow->done < flow->posted) {
		struct transfer *oldest = &flow->transfers[flow->done];
		flow->error = transfer_test(net, oldest);
		if (!flow->error && oldest->done) {
			if (flow->finish)
				flow->finish(flow, flow->done);
			flow->done++;
			turn_moved();
		}
	}
	return flow->error || flow->done == flow->count;
}

static bool step_all(struct test_net *net, struct flow *flows, size_t count)
{
	bool over = true;
	for (size_t i = 0; i < count; i++)
		over = flow_step(net, &flows[i]) && over;
	return over;
}

static void check_flow(const struct flow *flow)
{
	check_that(!flow->error, "%s %zu of %zu: error %d", flow->is_send ? "send" : "receive",
		   flow->done, flow->count, flow->error);
}

void flows_run(struct test_net *net, struct flow *flows, size_t count)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages");

	while (!step_all(net, flows, count))
		deadline_turn(&deadline);
	for (size_t i = 0; i < count; i++)
		check_flow(&flows[i]);
}

void flows_run_until_posted(struct test_net *net, struct flow *flows, size_t count,
			    const struct flow *flow, size_t wanted)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "requests to be taken");

	while (flow->posted < wanted) {
		step_all(net, flows, count);
		check_flow(flow);
		deadline_turn(&deadline);
	}
}

int flows_run_until_error(struct test_net *net, struct flow *flows, size_t count,
			  const struct flow *flow)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error");

	while (!flow->error) {
		step_all(net, flows, count);
		check_that(flow->done < flow->count, "no error, all is done");
		deadline_turn(&deadline);
	}
	return flow->error;
}

void *flow_reg(struct test_net *net, void *comm, void *data, size_t bytes)
{
	void *mhandle = NULL;

	check_ok(memory_reg(net, comm, data, bytes, &mhandle));
	check_that(mhandle || net_is_builtin(net), "regMr gave no handle");
	return mhandle;
}
