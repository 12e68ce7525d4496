/* SPDX-License-Identifier: Apache-2.0 */
/* IP networks in text form, "10.0.0.0/8" or "fd00::/8", and IP addresses. */
#ifndef ANYNET_SUBNET_H
#define ANYNET_SUBNET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct subnet {
	int family; /* AF_INET or AF_INET6 */
	int prefix; /* bits; -1 = not given */
	uint8_t ip[16];
};

/* Parse the first `bytes` bytes of `text`: address[/prefix]. False: invalid. */
bool subnet_parse(const char *text, size_t bytes, struct subnet *subnet);

/* Is `addr` of the network's family, and are its first `prefix` bits those of the network? */
bool subnet_holds(const struct subnet *subnet, int prefix, const struct sockaddr_storage *addr);

/* The number of leading bits, of the first `most`, that two addresses in network byte order have in common. */
int subnet_common_bits(const uint8_t *a, const uint8_t *b, int most);

/* An address without its port as text; "?" = it is not an IP address. Returns buf. */
const char *subnet_ip_text(const struct sockaddr_storage *addr, char buf[INET6_ADDRSTRLEN]);

#endif
