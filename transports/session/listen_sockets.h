/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets, one for each NIC of the process, and the epoll set of them and of the handshakes. All calls
 * with the accept engine's lock. */
#ifndef ANYNET_LISTEN_SOCKETS_H
#define ANYNET_LISTEN_SOCKETS_H

#include <stdbool.h>

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

/* Open a listening socket on each device of `set` that has none, and fill their addresses, in the order of `set`; port
 * 0: it failed. 0, or -errno of the first one if all failed, with a WARN if one `is_needed`. One INFO line for each device
 * that fails. */
int sockets_listen(const struct anynet_device *const *set, int count, bool is_needed,
		   struct anynet_wire_addr *addrs);

/* epoll data: for listening sockets their index, made odd; for handshakes a pointer, which is even. */
#define LISTEN_EVENT_SOCKET(index) ((uint64_t)(index) << 1 | 1)
int sockets_fd(unsigned index); /* -1 = not open; only while the epoll set is open */
int sockets_epoll_fd(void);     /* -1 = not open */

/* See listen_watch. */
void sockets_watch(int epfd, uint32_t data);
void sockets_close(void);

#endif
