/* SPDX-License-Identifier: Apache-2.0 */
/* An unauthenticated connection to a listener: its address, and what a hello has to say
 * to be accepted. */
#ifndef TESTS_SUPPORT_UNAUTH_H
#define TESTS_SUPPORT_UNAUTH_H

#include "link.h"

#include <nccl_net/wire.h>
#include <netinet/in.h>

struct target {
	struct anynet_wire_handle handle;
	struct sockaddr_in addr; /* the handle's first */
};

/* From a handle, which need not be aligned. */
void unauth_target(const void *handle, struct target *target);

/* A blocking connection from 127.0.0.`from`; 0 = from wherever. */
int unauth_dial(const struct target *target, unsigned from);

/* As much as goes without waiting; the listener may have shut us out already. */
void unauth_say(int fd, const void *data, size_t bytes);

/* Nothing wrong with it, but for the comm's id. */
struct anynet_wire_hello unauth_hello(const struct target *target);

/* What the listener does: at least `bytes` bytes of an answer, or it hangs up; -1 = neither within `ms`.
 * Returns the bytes read to `data`. */
ssize_t unauth_hear(int fd, void *data, size_t bytes, int ms);

/* Has the listener hung up on us? Without waiting. */
bool unauth_is_shut_out(int fd);

#endif
