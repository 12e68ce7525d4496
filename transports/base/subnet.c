/* SPDX-License-Identifier: Apache-2.0 */
/* IP networks; see subnet.h. */
#include <nccl_net/subnet.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_DIGITS 3

/* Parse a prefix length. -1 = not a number, or above `most`. */
static int parse_prefix(const char *text, size_t bytes, int most)
{
	char digits[PREFIX_DIGITS + 1] = "";
	int prefix;

	if (!bytes || bytes > PREFIX_DIGITS)
		return -1;
	memcpy(digits, text, bytes);
	if (strspn(digits, "0123456789") != bytes)
		return -1;
	prefix = (int)strtol(digits, NULL, 10);
	return prefix <= most ? prefix : -1;
}

bool subnet_parse(const char *text, size_t bytes, struct subnet *subnet)
{
	const char *slash = memchr(text, '/', bytes);
	size_t addr_bytes = slash ? (size_t)(slash - text) : bytes;
	char addr[INET6_ADDRSTRLEN + 1];

	if (!addr_bytes || addr_bytes >= sizeof(addr))
		return false;
	memcpy(addr, text, addr_bytes);
	addr[addr_bytes] = 0;
	*subnet = (struct subnet){ .family = strchr(addr, ':') ? AF_INET6 : AF_INET, .prefix = -1 };
	if (inet_pton(subnet->family, addr, subnet->ip) != 1)
		return false;
	if (!slash)
		return true;
	subnet->prefix = parse_prefix(slash + 1, bytes - addr_bytes - 1,
				      subnet->family == AF_INET ? 32 : 128);
	return subnet->prefix >= 0;
}

bool subnet_holds(const struct subnet *subnet, int prefix, const struct sockaddr_storage *addr)
{
	const void *ip = subnet->family == AF_INET
				 ? (const void *)&((const struct sockaddr_in *)addr)->sin_addr
				 : (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr;

	if (addr->ss_family != subnet->family)
		return false;
	for (int bit = 0; bit < prefix; bit += 8) {
		int mask = prefix - bit >= 8 ? 0xff : 0xff << (8 - (prefix - bit));

		if ((((const uint8_t *)ip)[bit / 8] ^ subnet->ip[bit / 8]) & mask)
			return false;
	}
	return true;
}
