/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets, one per NIC and process, and the epoll set that they and the handshakes are in. All calls under
 * the accept engine's lock. */
#ifndef ANYNET_SOCKETS_H
#define ANYNET_SOCKETS_H

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

/* The listening address of each device of a stripe, aligned with `set`; opens the sockets. Port 0 where
 * that fails. 0, or -errno if it does for the first one. */
int sockets_listen(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs);

/* epoll data of listening sockets: their index; of handshakes: a pointer. */
#define LISTEN_EVENT_SOCKET(index) ((uint64_t)(index) << 1 | 1)
int sockets_fd(unsigned index); /* -1 = not open. While the set is open */
int sockets_epoll_fd(void);     /* -1 = not open */

/* As listen_watch. */
void sockets_watch(int epfd, uint32_t data, unsigned *generation);
void sockets_close(void);

#endif
