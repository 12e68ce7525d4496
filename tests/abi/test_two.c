/* SPDX-License-Identifier: Apache-2.0 */
/* Two NCCLs of different releases in one process: on one copy of the plugin, on two, in two namespaces of the dynamic
 * linker. They do not affect each other. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/abi/net_v8.h>
#include <nccl_net/device.h>
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/harness.h>
#include <support/link.h>

#include "two.h"

#define OLD_ABI 8
#define NEW_ABI 12
#define STEPS   24 /* of a connection established before */
#define BYTES   200000
#define TAG     7

/* --- one copy --- */

/* One NCCL starts and ends while the other's connection is in this state. */
static void end_at_step(struct test_net *old, struct test_net *new, int step)
{
	struct link link;

	link_listen(old, &link);
	for (int i = 0; i < step; i++) {
		link_connect_step(old, &link);
		if (i % 2)
			link_accept_step(old, &link);
	}
	check_ok(driver_init(new->driver, &new->ctx, 5, -1, capture_logger, NULL));
	check_ok(driver_finalize(new->driver, new->ctx));
	link_finish(old, &link);
	link_check(old, &link, BYTES);
	link_close(old, &link);
}

static void test_the_end_of_one_leaves_the_connects_of_the_other(struct test_net *net)
{
	struct test_net old = open_abi(net->spec, 10), new = open_abi(net->spec, NEW_ABI);

	check_ok(driver_finalize(new.driver, new.ctx));
	for (int step = 0; step < STEPS; step++)
		end_at_step(&old, &new, step);
	check_int(capture_count(0, "gave up before the connection was established"), 0);
	driver_close(new.driver);
	net_close(&old);
}

/* --- two copies --- */

static void test_two_copies_talk_to_each_other(struct test_net *net)
{
	struct test_net old = open_abi(net->spec, OLD_ABI), new = open_copy(net->spec, NEW_ABI);
	struct link there, back;

	check(strcmp(driver_path(old.driver), driver_path(new.driver)));
	link_between(&old, &new, &there);
	link_between(&new, &old, &back);
	send_between(&old, &new, &there, BYTES);
	send_between(&new, &old, &back, BYTES);
	close_between(&old, &new, &there);
	send_between(&new, &old, &back, BYTES);
	close_between(&new, &old, &back);
	net_close(&new);
	link_open(&old, &there); /* the other one has ended */
	link_check(&old, &there, BYTES);
	link_close(&old, &there);
	net_close(&old);
}

/* --- two namespaces of the dynamic linker: also two C libraries --- */

/* The C library there has its own environment, that of the start of the process. */
static void set_apart(void *lib)
{
	int (*set)(const char *name, const char *value, int overwrite);
	void *libc, *symbol;
	Lmid_t ns;

	check(!dlinfo(lib, RTLD_DI_LMID, &ns));
	libc = dlmopen(ns, "libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	check_that(libc, "%s", dlerror());
	symbol = dlsym(libc, "setenv");
	check(symbol);
	memcpy(&set, &symbol, sizeof(set));
	check(!set("NCCL_SOCKET_IFNAME", "=lo", 1) && !set("ANYNET_TRANSPORT", "tcp", 1));
}

static struct anynet_net_v8 *open_apart(const char *path)
{
	void *lib = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	struct anynet_net_v8 *table;

	check_that(lib, "%s", dlerror());
	set_apart(lib);
	table = dlsym(lib, "ncclNetPlugin_v8");
	check(table);
	check_ok(table->init(capture_logger));
	return table;
}

static void await_apart(struct anynet_net_v8 *table, void *req, const char *what)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, what);
	int done = 0, bytes;

	while (!done) {
		check_ok(table->test(req, &done, &bytes));
		deadline_turn(&deadline);
	}
	check_int(bytes, BYTES);
}

/* From the copy in the namespace to the first one. */
static void send_from_apart(struct anynet_net_v8 *apart, struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");
	static unsigned char from[BYTES], to[BYTES];
	void *comm = NULL, *mr, *req = NULL;
	struct transfer recv;
	struct link link;

	link_listen(net, &link);
	for (bool accepted = false; !comm || !accepted; deadline_turn(&deadline)) {
		if (!comm)
			check_ok(apart->connect(0, link_copy(&link), &comm, NULL));
		accepted = link_accept_step(net, &link);
	}
	pattern_fill(from, BYTES, TAG);
	check_ok(apart->reg_mr(comm, from, BYTES, ANYNET_PTR_HOST, &mr));
	while (!req)
		check_ok(apart->isend(comm, from, BYTES, TAG, mr, &req));
	recv = transfer_of(to, BYTES, TAG, NULL);
	transfer_post_soon(net, link.recv, false, &recv);
	while (!recv.done) {
		check_ok(transfer_test(net, &recv));
		deadline_turn(&deadline);
	}
	pattern_check(to, BYTES, TAG);
	await_apart(apart, req, "a send from the other namespace");
	check_ok(apart->dereg_mr(comm, mr));
	check_ok(apart->close_send(comm));
	check_ok(driver_close_recv(net->driver, link.recv));
}

static void test_two_namespaces_talk_to_each_other(struct test_net *net)
{
	struct anynet_net_v8 *apart;
	struct test_net new;

	if (TEST_SANITIZED)
		check_skip("a sanitizer knows one namespace of the dynamic linker only");
	apart = open_apart(net->spec);
	new = open_abi(net->spec, NEW_ABI);
	for (int i = 0; i < 3; i++)
		send_from_apart(apart, &new);
	net_close(&new);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "the end of one leaves the connects of the other",
		  test_the_end_of_one_leaves_the_connects_of_the_other, .unopened = true,
		  .settings = { "ANYNET_CONNECT_TIMEOUT=3s", "NCCL_DEBUG=TRACE" } },
		{ "two copies talk to each other", test_two_copies_talk_to_each_other,
		  .unopened = true },
		{ "two namespaces talk to each other", test_two_namespaces_talk_to_each_other,
		  .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
