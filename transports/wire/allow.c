/* SPDX-License-Identifier: Apache-2.0 */
/* The networks that may connect; see allow.h. */
#include "wire/allow.h"

#include <netinet/in.h>
#include <string.h>

#include <nccl_net/subnet.h>

#define NETWORKS_MAX 256 /* more than the length of the setting allows */
#define MAPPED_BITS  96  /* prefix length of the IPv4-mapped addresses, ::ffff:0:0/96 */

static struct {
	bool everybody;
	int count;
	struct subnet networks[NETWORKS_MAX];
} allow = { .everybody = true };

/* Convert an IPv4-mapped network: ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
static void unmap_network(struct subnet *net)
{
	if (net->family != AF_INET6 || net->prefix < MAPPED_BITS ||
	    !IN6_IS_ADDR_V4MAPPED((struct in6_addr *)net->ip))
		return;
	memmove(net->ip, net->ip + MAPPED_BITS / 8, sizeof(struct in_addr));
	net->family = AF_INET;
	net->prefix -= MAPPED_BITS;
}

static bool add_network(const char *text, size_t bytes)
{
	struct subnet *net = &allow.networks[allow.count];

	if (allow.count == NETWORKS_MAX || !subnet_parse(text, bytes, net))
		return false;
	if (net->prefix < 0)
		net->prefix = net->family == AF_INET ? 32 : 128;
	unmap_network(net);
	allow.count++;
	return true;
}

void allow_start(const char *list)
{
	allow.count = 0;
	allow.everybody = !*list;
	while (*list) {
		size_t bytes = strcspn(list, ",");

		if (!add_network(list, bytes)) {
			allow.count = 0;
			return;
		}
		list += bytes;
		list += *list == ',';
	}
}

static struct sockaddr_storage unmap(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	struct sockaddr_storage plain = { .ss_family = AF_INET };

	if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return *addr;
	memcpy(&((struct sockaddr_in *)&plain)->sin_addr, &v6->sin6_addr.s6_addr[MAPPED_BITS / 8],
	       sizeof(struct in_addr));
	return plain;
}

bool allow_permits(const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain = unmap(addr);

	if (allow.everybody)
		return true;
	for (int i = 0; i < allow.count; i++)
		if (subnet_holds(&allow.networks[i], allow.networks[i].prefix, &plain))
			return true;
	return false;
}
