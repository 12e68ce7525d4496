/* SPDX-License-Identifier: Apache-2.0 */
/* IP networks as people write them: "10.0.0.0/8", "fd00::/8"; and what lies in them. */
#ifndef ANYNET_SUBNET_H
#define ANYNET_SUBNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct subnet {
	int family; /* AF_INET or AF_INET6 */
	int prefix; /* bits; -1 = none was given */
	uint8_t ip[16];
};

/* The network in the first `bytes` bytes of `text`. False: it is none. */
bool subnet_parse(const char *text, size_t bytes, struct subnet *subnet);

/* Do the first `prefix` bits of `addr` agree with the network's? Bits beyond them do not count. */
bool subnet_holds(const struct subnet *subnet, int prefix, const struct sockaddr_storage *addr);

#endif
