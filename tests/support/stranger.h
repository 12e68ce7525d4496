/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody at the listener's port who is not the peer: where it is, and what a hello would have to say
 * to be believed. */
#ifndef TESTS_SUPPORT_STRANGER_H
#define TESTS_SUPPORT_STRANGER_H

#include "link.h"

#include <nccl_net/wire.h>
#include <netinet/in.h>

struct target {
	struct anynet_wire_handle handle;
	struct sockaddr_in addr; /* the handle's first */
};

/* From a handle, which need not be aligned. */
void stranger_target(const void *handle, struct target *target);

/* A blocking connection from 127.0.0.`from`; 0 = from wherever. */
int stranger_dial(const struct target *target, unsigned from);

/* As much as goes without waiting; the listener may have shut us out already. */
void stranger_say(int fd, const void *data, size_t bytes);

/* Nothing wrong with it, but for the comm's id. */
struct anynet_wire_hello stranger_hello(const struct target *target);

/* What the listener does: at least `bytes` bytes of an answer, or it hangs up; -1 = neither within `ms`.
 * Returns the bytes read to `data`. */
ssize_t stranger_hear(int fd, void *data, size_t bytes, int ms);

/* Has the listener hung up on us? Without waiting. */
bool stranger_is_shut_out(int fd);

#endif
