/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections, in the role of NCCL's service thread (net-api.md §3.2 - §3.4). The connecting side gets a copy of the
 * listener's handle, which is the same buffer at every retry and has no particular alignment. connect and accept are
 * called again until they return a comm.
 */
#ifndef TESTS_SUPPORT_LINK_H
#define TESTS_SUPPORT_LINK_H

#include "harness.h"

#define LINK_GUARD_BYTES 64

struct link {
	unsigned char listened[2 * LINK_GUARD_BYTES + DRIVER_HANDLE_BYTES];
	unsigned char connecting[2 * LINK_GUARD_BYTES + DRIVER_HANDLE_BYTES];
	void *listener, *send, *recv;
};

/* Opens the listener; nothing is connected yet. The copy for the other end exists, too. */
void link_listen(struct test_net *net, struct link *link);

/* The handle that listen wrote, and the copy that connect uses. */
unsigned char *link_handle(struct link *link);
unsigned char *link_copy(struct link *link);

/* One attempt each; true once there is a comm. accept then closes the listener, as NCCL does. */
bool link_connect_step(struct test_net *net, struct link *link);
bool link_accept_step(struct test_net *net, struct link *link);

/* Both ends in this thread, alternating; link_finish continues from any state. */
void link_open(struct test_net *net, struct link *link);
void link_finish(struct test_net *net, struct link *link);

/* One end each, in two processes with the socket `fd` between them; any number of links at once. */
void link_open_sends(struct test_net *net, struct link *links, size_t count, int fd);
void link_open_recvs(struct test_net *net, struct link *links, size_t count, int fd);

/* One message, both ends in this thread; returns the received size. */
size_t link_exchange(struct test_net *net, struct link *link, void *from, size_t from_bytes,
		     void *to, size_t to_bytes);

/* A message of `bytes` bytes, checked, both ends in this thread. */
void link_check(struct test_net *net, struct link *link, size_t bytes);

/* … in host memory, whatever TEST_MEMORY is. A receiver that may use GPU memory takes copies of small messages only
 * after this, until its first receive in GPU memory. */
void link_check_host(struct test_net *net, struct link *link, size_t bytes);

/* Closes what is open of it. */
void link_close(struct test_net *net, struct link *link);

#endif
