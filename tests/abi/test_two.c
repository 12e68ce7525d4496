/* SPDX-License-Identifier: Apache-2.0 */
/* Two NCCLs in one process, of different releases: on one copy of the plugin, on two, in two namespaces of the
 * dynamic linker. What one of them does is nothing to the other. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/abi/net_v8.h>
#include <nccl_net/device.h>
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/harness.h>
#include <support/link.h>

#define OLD_ABI  8
#define NEW_ABI  12
#define STEPS    24 /* of a connection that stands before */
#define BYTES    200000
#define MESSAGES 8
#define TAG      7

static struct test_net open_abi(const char *spec, int abi)
{
	struct test_net one = { .spec = spec, .abi = abi };

	net_open(&one);
	return one;
}

/* --- one copy --- */

/* One NCCL begins and ends when the other's connection is so far. */
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
	check_int(capture_count(0, "gave up before the connection stood"), 0);
	driver_close(new.driver);
	net_close(&old);
}

/* --- two copies --- */

/* A file of its own: the dynamic linker knows files by device and inode. */
static void copy_file(const char *from, char *dir, char *path, size_t bytes)
{
	struct stat st;
	int in = open(from, O_RDONLY | O_CLOEXEC), out;

	check(in >= 0 && !fstat(in, &st) && mkdtemp(dir));
	snprintf(path, bytes, "%s/libnccl-net-two.so", dir);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	check(out >= 0 && sendfile(out, in, NULL, (size_t)st.st_size) == st.st_size);
	close(in);
	close(out);
}

/* The listener is one's, the connector the other's. */
static void link_between(struct test_net *from, struct test_net *to, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");

	link_listen(to, link);
	for (bool connected = false, accepted = false; !connected || !accepted;
	     deadline_turn(&deadline)) {
		connected = link_connect_step(from, link);
		accepted = link_accept_step(to, link);
	}
}

static void send_between(struct test_net *from, struct test_net *to, struct link *link)
{
	struct transfer sends[MESSAGES], recvs[MESSAGES];
	struct flow send = {
		.comm = link->send, .is_send = true, .transfers = sends, .count = MESSAGES
	};
	struct flow recv = { .comm = link->recv, .transfers = recvs, .count = MESSAGES };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages");
	struct buffer out, in;

	buffer_alloc(&out, BYTES);
	buffer_alloc(&in, (size_t)MESSAGES * BYTES);
	pattern_fill(out.data, BYTES, TAG);
	for (size_t i = 0; i < MESSAGES; i++) {
		sends[i] = transfer_of(out.data, BYTES, TAG, NULL);
		recvs[i] = transfer_of(in.data + i * BYTES, BYTES, TAG, NULL);
	}
	for (bool sent = false, received = false; !sent || !received; deadline_turn(&deadline)) {
		sent = flow_step(from, &send);
		received = flow_step(to, &recv);
		check(!send.error && !recv.error);
	}
	for (size_t i = 0; i < MESSAGES; i++)
		pattern_check(in.data + i * BYTES, BYTES, TAG);
	buffer_free(&out);
	buffer_free(&in);
}

static void close_between(struct test_net *from, struct test_net *to, struct link *link)
{
	check_ok(driver_close_send(from->driver, link->send));
	check_ok(driver_close_recv(to->driver, link->recv));
}

static void test_two_copies_talk_to_each_other(struct test_net *net)
{
	char dir[] = "/tmp/anynet-test-XXXXXX", path[64];
	struct test_net old, new;
	struct link there, back;

	copy_file(net->spec, dir, path, sizeof(path));
	old = open_abi(net->spec, OLD_ABI);
	new = open_abi(path, NEW_ABI);
	check_ok(unlink(path));
	check_ok(rmdir(dir));
	check(strcmp(driver_path(old.driver), driver_path(new.driver)));
	link_between(&old, &new, &there);
	link_between(&new, &old, &back);
	send_between(&old, &new, &there);
	send_between(&new, &old, &back);
	close_between(&old, &new, &there);
	send_between(&new, &old, &back);
	close_between(&new, &old, &back);
	net_close(&new);
	link_open(&old, &there); /* the other one is over */
	link_check(&old, &there, BYTES);
	link_close(&old, &there);
	net_close(&old);
}

/* --- two namespaces of the dynamic linker: also two C libraries --- */

/* The C library there has an environment of its own, which is that of the process's start. */
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

/* From the copy in the namespace to ours. */
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
