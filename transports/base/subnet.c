/* SPDX-License-Identifier: Apache-2.0 */
/* IP networks; see subnet.h. */
#include <nccl_net/subnet.h>

#include <arpa/inet.h>
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

static const void *ip_of(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return &((const struct sockaddr_in *)addr)->sin_addr;
	return &((const struct sockaddr_in6 *)addr)->sin6_addr;
}

int subnet_common_bits(const uint8_t *a, const uint8_t *b, int most)
{
	int bits = 0;

	while (bits < most && !((a[bits / 8] ^ b[bits / 8]) & 0x80 >> bits % 8))
		bits++;
	return bits;
}

bool subnet_holds(const struct subnet *subnet, int prefix, const struct sockaddr_storage *addr)
{
	return addr->ss_family == subnet->family &&
	       subnet_common_bits(subnet->ip, ip_of(addr), prefix) == prefix;
}

const char *subnet_ip_text(const struct sockaddr_storage *addr, char buf[INET6_ADDRSTRLEN])
{
	return inet_ntop(addr->ss_family, ip_of(addr), buf, INET6_ADDRSTRLEN) ? buf : strcpy(buf, "?");
}
