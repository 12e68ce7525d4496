/* SPDX-License-Identifier: Apache-2.0 */
/* See two.h. */
#include "two.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <support/buffer.h>
#include <support/flow.h>

#define MESSAGES 8
#define TAG      7

struct test_net open_abi(const char *spec, int abi)
{
	struct test_net one = { .spec = spec, .abi = abi };

	net_open(&one);
	return one;
}

/* A copy of the file: the dynamic linker identifies files by device and inode. */
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

struct test_net open_copy(const char *spec, int abi)
{
	char dir[] = "/tmp/anynet-test-XXXXXX", path[64];
	struct test_net copy;

	copy_file(spec, dir, path, sizeof(path));
	copy = open_abi(path, abi);
	check_ok(unlink(path));
	check_ok(rmdir(dir));
	return copy;
}

void link_between(struct test_net *from, struct test_net *to, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");

	link_listen(to, link);
	for (bool connected = false, accepted = false; !connected || !accepted;
	     deadline_turn(&deadline)) {
		connected = link_connect_step(from, link);
		accepted = link_accept_step(to, link);
	}
}

void send_between(struct test_net *from, struct test_net *to, struct link *link, size_t bytes)
{
	struct transfer sends[MESSAGES], recvs[MESSAGES];
	struct flow send = {
		.comm = link->send, .is_send = true, .transfers = sends, .count = MESSAGES
	};
	struct flow recv = { .comm = link->recv, .transfers = recvs, .count = MESSAGES };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages");
	struct buffer out, in;

	buffer_alloc(&out, bytes);
	buffer_alloc(&in, (size_t)MESSAGES * bytes);
	pattern_fill(out.data, bytes, TAG);
	for (size_t i = 0; i < MESSAGES; i++) {
		sends[i] = transfer_of(out.data, bytes, TAG, NULL);
		recvs[i] = transfer_of(in.data + i * bytes, bytes, TAG, NULL);
	}
	for (bool sent = false, received = false; !sent || !received; deadline_turn(&deadline)) {
		sent = flow_step(from, &send);
		received = flow_step(to, &recv);
		check(!send.error && !recv.error);
	}
	for (size_t i = 0; i < MESSAGES; i++)
		pattern_check(in.data + i * bytes, bytes, TAG);
	buffer_free(&out);
	buffer_free(&in);
}

void close_between(struct test_net *from, struct test_net *to, struct link *link)
{
	check_ok(driver_close_send(from->driver, link->send));
	check_ok(driver_close_recv(to->driver, link->recv));
}
