/* SPDX-License-Identifier: Apache-2.0 */
/* An unauthenticated connection to a listener: its address, and the contents of a hello that is accepted. */
#ifndef TESTS_SUPPORT_UNAUTH_H
#define TESTS_SUPPORT_UNAUTH_H

#include "link.h"

#include <nccl_net/wire.h>
#include <netinet/in.h>

struct target {
	struct anynet_wire_handle handle;
	struct sockaddr_in addr; /* the first address of the handle */
};

/* From a handle, which need not be aligned. */
void unauth_target(const void *handle, struct target *target);

/* A blocking connection from 127.0.0.`from`; 0 = from any address. */
int unauth_dial(const struct target *target, unsigned from);

/* Sends what fits without waiting; the listener may have closed the connection. */
void unauth_say(int fd, const void *data, size_t bytes);

/* Correct, except for the comm's id. */
struct anynet_wire_hello unauth_hello(const struct target *target);

/* Waits for `bytes` bytes of an answer or for a close; -1 = neither within `ms`. Returns the bytes read to `data`. */
ssize_t unauth_hear(int fd, void *data, size_t bytes, int ms);

/* Has the listener closed the connection? Does not wait. */
bool unauth_is_shut_out(int fd);

#endif
