/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses and interfaces; see address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <nccl_net/util.h>

socklen_t address_bytes(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

bool address_parse(const char *text, int port, struct sockaddr_storage *addr)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	char service[16];

	snprintf(service, sizeof(service), "%d", port);
	if (!*text || getaddrinfo(text, service, &hints, &found))
		return false;
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

void address_plain(struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 six = *(const struct sockaddr_in6 *)addr;
	struct sockaddr_in *four = (struct sockaddr_in *)addr;

	if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		return;
	memset(addr, 0, sizeof(*addr));
	four->sin_family = AF_INET;
	four->sin_port = six.sin6_port;
	memcpy(&four->sin_addr, &six.sin6_addr.s6_addr[12], 4);
}

const char *address_print(const struct sockaddr_storage *addr, char *text)
{
	struct sockaddr_storage plain = *addr;

	address_plain(&plain);
	if (getnameinfo((const struct sockaddr *)&plain, address_bytes(&plain), text, ADDRESS_TEXT,
			NULL, 0, NI_NUMERICHOST))
		strcpy(text, "?");
	return text;
}

int address_port(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

void address_set_port(struct sockaddr_storage *addr, int port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons((uint16_t)port);
}

bool address_own(int fd, struct sockaddr_storage *addr)
{
	socklen_t bytes = sizeof(*addr);

	*addr = (struct sockaddr_storage){ 0 };
	return !getsockname(fd, (struct sockaddr *)addr, &bytes);
}

bool address_peer(int fd, struct sockaddr_storage *addr)
{
	socklen_t bytes = sizeof(*addr);

	*addr = (struct sockaddr_storage){ 0 };
	return !getpeername(fd, (struct sockaddr *)addr, &bytes);
}

bool address_is_loopback(const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain = *addr;

	address_plain(&plain);
	if (plain.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&plain)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)&plain)->sin_addr.s_addr) >> 24 == 127;
}

const unsigned char *address_ip(const struct sockaddr_storage *addr, size_t *bytes)
{
	bool six = addr->ss_family == AF_INET6;

	*bytes = six ? 16 : 4;
	return six ? (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr
		   : (const void *)&((const struct sockaddr_in *)addr)->sin_addr;
}

bool address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t bytes;
	const unsigned char *ip = address_ip(a, &bytes);

	return a->ss_family == b->ss_family && !memcmp(ip, address_ip(b, &bytes), bytes);
}

int address_listen(struct sockaddr_storage *addr, int queue)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error = 0, on = 1, off = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (addr->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (const struct sockaddr *)addr, address_bytes(addr)) || listen(fd, queue) ||
	    !address_own(fd, addr))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	return -error;
}

/* ioctl on an interface. Returns whether it has succeeded. */
static bool ask_interface(const char *name, unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return false;
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	ret = ioctl(fd, what, request);
	close(fd);
	return !ret;
}

static int mtu_of(const char *name)
{
	struct ifreq request = { 0 };

	return ask_interface(name, SIOCGIFMTU, &request) ? request.ifr_mtu : 0;
}

int address_interface(const struct sockaddr_storage *addr, char *name)
{
	struct sockaddr_storage plain = *addr;
	struct ifaddrs *all;

	address_plain(&plain);
	*name = '\0';
	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && !*name; i = i->ifa_next) {
		if (i->ifa_addr && i->ifa_addr->sa_family == plain.ss_family &&
		    address_is_same(&plain,
				    (const struct sockaddr_storage *)(const void *)i->ifa_addr))
			snprintf(name, IFNAMSIZ, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return *name ? mtu_of(name) : 0;
}

bool address_is_unicast(const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain = *addr;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)&plain)->sin6_addr;
	uint32_t four;

	address_plain(&plain);
	if (plain.ss_family == AF_INET6)
		return !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_MULTICAST(six);
	four = ntohl(((const struct sockaddr_in *)&plain)->sin_addr.s_addr) >> 24;
	return four && four < 224;
}

bool address_is_dialled(const char *text)
{
	struct sockaddr_storage addr;

	return address_parse(text, 0, &addr) && address_is_unicast(&addr) &&
	       !address_is_loopback(&addr);
}

bool address_is_local(const struct sockaddr_storage *addr)
{
	char name[IFNAMSIZ];

	address_interface(addr, name);
	return *name || address_is_loopback(addr);
}

bool interface_is_virtual(const char *name)
{
	static const char *const drivers[] = { "veth",       "bridge",    "tun",     "dummy",
					       "macvlan",    "ipvlan",    "vxlan",   "ipip",
					       "virtio_net", "hv_netvsc", "vmxnet3", "vif",
					       "ena",        "gve" };
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { .ifr_data = (void *)&info };

	if (!ask_interface(name, SIOCETHTOOL, &request))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		if (!strcmp(info.driver, drivers[i]))
			return true;
	}
	return false;
}
