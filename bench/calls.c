/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a comm in one process, and messages one by one; instructions.sh counts the instructions.
 * Usage: calls SPEC BYTES COUNT
 */
#include <driver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST_ABI 12
#define WARM_UP    200

static struct driver_net *net;
static void *send_comm, *recv_comm, *send_mr, *recv_mr;
static char *from, *to;
static size_t bytes;

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "calls: %s: result %d\n", what, result);
	exit(1);
}

static void log_nothing(int level, unsigned long flags, const char *file, int line, const char *fmt,
			...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

static void open_pair(const char *spec)
{
	char handle[128], err[512];
	void *ctx, *listener;

	net = driver_open(spec, NEWEST_ABI, err, sizeof(err));
	if (!net) {
		fprintf(stderr, "calls: %s\n", err);
		exit(1);
	}
	must(driver_init(net, &ctx, 1, -1, log_nothing, NULL), "init");
	must(driver_listen(net, ctx, 0, handle, &listener), "listen");
	while (!send_comm || !recv_comm) {
		if (!send_comm)
			must(driver_connect(net, ctx, 0, handle, &send_comm), "connect");
		if (!recv_comm)
			must(driver_accept(net, listener, &recv_comm), "accept");
	}
	must(driver_reg_mr(net, send_comm, from, bytes, 1, &send_mr), "regMr");
	must(driver_reg_mr(net, recv_comm, to, bytes, 1, &recv_mr), "regMr");
}

/* Transfers one message as NCCL's proxy does. Returns the number of test calls. */
static long one_message(void)
{
	void *recv = NULL, *send = NULL, *data = to, *mr = recv_mr;
	int tag = 0, done = 0, size;
	long tests = 0;

	while (!recv)
		must(driver_irecv(net, recv_comm,
				  &(struct driver_recv){ 1, &data, &bytes, &tag, &mr, NULL },
				  &recv),
		     "irecv");
	while (!send)
		must(driver_isend(net, send_comm,
				  &(struct driver_send){ from, bytes, tag, send_mr, NULL }, &send),
		     "isend");
	for (; recv; tests++) {
		must(driver_test(net, recv, &done, &size), "test");
		if (done)
			recv = NULL;
	}
	for (; send; tests++) {
		must(driver_test(net, send, &done, &size), "test");
		if (done)
			send = NULL;
	}
	return tests;
}

__attribute__((noinline)) static long measured(long count)
{
	long tests = 0;

	for (long i = 0; i < count; i++)
		tests += one_message();
	return tests;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: calls SPEC BYTES COUNT\n");
		return 2;
	}
	bytes = strtoul(argv[2], NULL, 10);
	from = calloc(1, bytes);
	to = calloc(1, bytes);
	if (!from || !to)
		return 1;
	open_pair(argv[1]);
	for (int i = 0; i < WARM_UP; i++)
		one_message();
	printf("%.2f tests a message\n", (double)measured(atol(argv[3])) / (double)atol(argv[3]));
	return 0;
}
