/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"
#include "buffer.h"
#include "flow.h"
#include "memory.h"
#include "peer.h"

#include <stdlib.h>
#include <string.h>

#define GUARD_BYTE 0xd7

/* Odd: connect must not rely on alignment. */
#define COPY_OFFSET (LINK_GUARD_BYTES - 3)

unsigned char *link_handle(struct link *link)
{
	return link->listened + LINK_GUARD_BYTES;
}

unsigned char *link_copy(struct link *link)
{
	return link->connecting + COPY_OFFSET;
}

static void check_guards(const unsigned char *area, size_t bytes, size_t offset)
{
	for (size_t i = 0; i < bytes; i++) {
		if (i >= offset && i < offset + DRIVER_HANDLE_BYTES)
			continue;
		check_that(area[i] == GUARD_BYTE, "byte %zd beside the handle was overwritten",
			   (ssize_t)i - (ssize_t)offset);
	}
}

static void clear(struct link *link)
{
	memset(link->listened, GUARD_BYTE, sizeof(link->listened));
	memset(link->connecting, GUARD_BYTE, sizeof(link->connecting));
	link->listener = link->send = link->recv = NULL;
}

void link_listen(struct test_net *net, struct link *link)
{
	clear(link);
	check_ok(driver_listen(net->driver, net->ctx, net->listen_dev, link_handle(link),
			       &link->listener));
	check(link->listener);
	check_guards(link->listened, sizeof(link->listened), LINK_GUARD_BYTES);
	memcpy(link_copy(link), link_handle(link), DRIVER_HANDLE_BYTES);
}

bool link_connect_step(struct test_net *net, struct link *link)
{
	if (link->send)
		return true;
	check_ok(driver_connect(net->driver, net->ctx, net->dev, link_copy(link), &link->send));
	check_guards(link->connecting, sizeof(link->connecting), COPY_OFFSET);
	return link->send;
}

bool link_accept_step(struct test_net *net, struct link *link)
{
	if (link->recv)
		return true;
	check_ok(driver_accept(net->driver, link->listener, &link->recv));
	if (!link->recv)
		return false;
	check_ok(driver_close_listen(net->driver, link->listener));
	link->listener = NULL;
	return true;
}

void link_open(struct test_net *net, struct link *link)
{
	link_listen(net, link);
	link_finish(net, link);
}

void link_finish(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");

	for (;;) {
		bool connected = link_connect_step(net, link);
		bool accepted = link_accept_step(net, link);
		if (connected && accepted)
			return;
		deadline_turn(&deadline);
	}
}

static void poll_links(struct test_net *net, struct link *links, size_t count,
		       bool (*step)(struct test_net *, struct link *))
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "connections");

	for (size_t left = count; left;) {
		left = 0;
		for (size_t i = 0; i < count; i++)
			left += !step(net, &links[i]);
		if (left)
			deadline_turn(&deadline);
	}
}

void link_open_sends(struct test_net *net, struct link *links, size_t count, int fd)
{
	for (size_t i = 0; i < count; i++) {
		clear(&links[i]);
		peer_recv(fd, link_copy(&links[i]), DRIVER_HANDLE_BYTES);
	}
	poll_links(net, links, count, link_connect_step);
}

void link_open_recvs(struct test_net *net, struct link *links, size_t count, int fd)
{
	for (size_t i = 0; i < count; i++) {
		link_listen(net, &links[i]);
		peer_send(fd, link_handle(&links[i]), DRIVER_HANDLE_BYTES);
	}
	poll_links(net, links, count, link_accept_step);
}

size_t link_exchange(struct test_net *net, struct link *link, void *from, size_t from_bytes,
		     void *to, size_t to_bytes)
{
	struct transfer send =
		transfer_of(from, from_bytes, 1, flow_reg(net, link->send, from, from_bytes));
	struct transfer recv =
		transfer_of(to, to_bytes, 1, flow_reg(net, link->recv, to, to_bytes));
	struct flow flows[] = {
		{ .comm = link->recv, .transfers = &recv, .count = 1 },
		{ .comm = link->send, .is_send = true, .transfers = &send, .count = 1 },
	};

	flows_run(net, flows, 2);
	check_ok(driver_dereg_mr(net->driver, link->send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link->recv, recv.mhandles[0]));
	return (size_t)recv.sizes[0];
}

void link_check(struct test_net *net, struct link *link, size_t bytes)
{
	unsigned char *from = memory_alloc(bytes), *to = memory_alloc(bytes);

	memset(memory_view(to, bytes), 0, bytes);
	pattern_fill(from, bytes, bytes);
	check_int(link_exchange(net, link, from, bytes, to, bytes), bytes);
	pattern_check(to, bytes, bytes);
	memory_free(from);
	memory_free(to);
}

void link_check_host(struct test_net *net, struct link *link, size_t bytes)
{
	unsigned char *from = malloc(bytes), *to = calloc(1, bytes);

	check(from && to);
	pattern_fill(from, bytes, bytes);
	check_int(link_exchange(net, link, from, bytes, to, bytes), bytes);
	pattern_check(to, bytes, bytes);
	free(from);
	free(to);
}

void link_close(struct test_net *net, struct link *link)
{
	memory_leave(net, link->send);
	memory_leave(net, link->recv);
	if (link->send)
		check_ok(driver_close_send(net->driver, link->send));
	if (link->recv)
		check_ok(driver_close_recv(net->driver, link->recv));
	if (link->listener)
		check_ok(driver_close_listen(net->driver, link->listener));
	link->send = link->recv = link->listener = NULL;
}
