/* SPDX-License-Identifier: Apache-2.0 */
/* MASTER_ADDR and MASTER_PORT, where all ranks meet. Part of the launcher area. */
#include "check.h"
#include "resolver.h"
#include "tools/shared/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/subnet.h>

/* Tests whether rank 0 could listen on this port, as PyTorch does. Returns 0 or errno. The socket
 * does not listen, so that nobody can connect to it. */
static int try_port(int port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, off = 0, error = 0;
	bool six = fd >= 0;

	if (!six)
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (six)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (six ? bind(fd, (struct sockaddr *)&any, sizeof(any))
		: bind(fd, (struct sockaddr *)&any4, sizeof(any4)))
		error = errno;
	close(fd);
	return error;
}

static void check_port(struct check *check, const struct layout *layout, bool here)
{
	const char *text = host_env("MASTER_PORT");
	char *end;
	long port = strtol(text ? text : "", &end, 10);
	int error;

	if (!text)
		return;
	if (*end || port < 1 || port > 65535) {
		found(check, CHECK_ERROR, "port-invalid", "MASTER_PORT=%s is not a port", text);
		found_fix(check, "use a port from 1024 to 65535, the same on every rank");
		return;
	}
	error = here && layout->rank <= 0 && layout->node <= 0 ? try_port((int)port) : 0;
	if (error == EADDRINUSE) {
		found(check, CHECK_WARN, "port-taken",
		      "another program on this host already uses MASTER_PORT=%ld", port);
		found_why(check, "rank 0 fails with \"address already in use\", or the others join "
				 "another job's store: \"Timed out after 1801 seconds waiting for "
				 "clients\"; harmless if it is this job itself");
		found_fix(check,
			  "end the old job (ss -ltnp 'sport = %ld' shows the process), or use "
			  "another port",
			  port);
	} else if (error) {
		found(check, CHECK_ERROR, "port-refused",
		      "rank 0 cannot listen on MASTER_PORT=%ld: %s", port, strerror(error));
		found_fix(check, "use a port from 1024 on");
	} else {
		found(check, CHECK_OK, "port", "MASTER_PORT=%ld%s", port, here ? " is free" : "");
		if (here)
			check_ports_open(check, (int)port, (int)port,
					 "rank 0 listens on MASTER_PORT for all others");
	}
}

static bool has_several_hosts(const struct layout *layout)
{
	return layout->node > 0 || layout->nodes > 1 ||
	       (layout->size > 0 && layout->local_size > 0 && layout->size > layout->local_size);
}

/* Looks up the kernel's route to the address without sending a packet. Returns 0 or errno, and the
 * interface in *dev. */
static int route_to(const struct check *check, const struct sockaddr_storage *addr,
		    const char **dev)
{
	struct sockaddr_storage to = *addr, from;
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;
	const struct netif_addr *own;

	*dev = NULL;
	if (fd < 0)
		return errno;
	address_set_port(&to, 9);
	if (connect(fd, (struct sockaddr *)&to, address_bytes(&to)) || !address_own(fd, &from))
		error = errno;
	close(fd);
	own = error ? NULL : interfaces_own_address(&check->interfaces, &from);
	if (own)
		*dev = interface_of_address(&check->interfaces, own);
	return error;
}

static void check_route(struct check *check, const char *name, const struct sockaddr_storage *addr)
{
	const char *dev;
	char text[INET6_ADDRSTRLEN];
	int error = route_to(check, addr, &dev);

	subnet_ip_text(addr, text);
	if (error) {
		found(check, CHECK_ERROR, "master-no-route",
		      "there is no route from this host to MASTER_ADDR=%s (%s): %s", name, text,
		      strerror(error));
		found_why(check,
			  "its ranks wait for rank 0 until they time out, and so do all others");
		found_fix(check,
			  "ip route get %s; use an address of rank 0's host in a network that this "
			  "host is in",
			  text);
	} else if (dev) {
		found(check, CHECK_OK, "master-route", "the route to MASTER_ADDR=%s uses %s", name,
		      dev);
	}
}

static void check_place(struct check *check, const struct layout *layout, const char *name,
			const struct sockaddr_storage *addr)
{
	bool here = address_is_loopback(addr) || interfaces_own_address(&check->interfaces, addr);
	char text[INET6_ADDRSTRLEN];

	subnet_ip_text(addr, text);
	if (address_is_loopback(addr) && has_several_hosts(layout)) {
		found(check, CHECK_ERROR, "master-loopback",
		      "MASTER_ADDR=%s is %s, and the job has several hosts", name, text);
		found_why(check, "every host looks for rank 0 on itself: \"Timed out … waiting "
				 "for clients\"");
		found_fix(check, "set it to an address of rank 0's host that the others reach; if "
				 "it is that host's name, correct its line in /etc/hosts");
	} else if (!here && (layout->rank == 0 || layout->node == 0)) {
		found(check, CHECK_WARN, "master-elsewhere",
		      "rank 0 runs on this host, but MASTER_ADDR=%s is %s, which is not an address "
		      "of this host",
		      name, text);
		found_why(check, "the others look for rank 0 there: \"Timed out … waiting for "
				 "clients\", unless that address is translated to this host's "
				 "(NAT, a Kubernetes service)");
		found_fix(check,
			  "set MASTER_ADDR to an address of this host, or start rank 0 there");
	} else if (here && layout->node > 0) {
		found(check, CHECK_WARN, "master-here",
		      "MASTER_ADDR=%s is this host, but this is host %ld of the job", name,
		      layout->node);
		found_why(check, "rank 0 runs on host 0, and MASTER_ADDR is its address");
		found_fix(check, "set NODE_RANK=0 here, or MASTER_ADDR to the address of host 0");
	} else {
		found(check, CHECK_OK, "master", "MASTER_ADDR=%s is %s, %s host", name, text,
		      here ? "this" : "another");
	}
	if (!here)
		check_route(check, name, addr);
	check_port(check, layout, here);
}

/* True if the text is a host name or an address only. */
static bool has_form(struct check *check, const char *name)
{
	const char *colon = strchr(name, ':');
	bool url = strstr(name, "://") || strchr(name, '/');

	if (!url && !(colon && !strchr(colon + 1, ':') && *name != '['))
		return true;
	found(check, CHECK_ERROR, "master-form",
	      "MASTER_ADDR=%s %s; expected a host name or an IP address", name,
	      url ? "is a URL" : "contains a port");
	found_why(check, "the name cannot be resolved, and ranks cannot connect to rank 0");
	found_fix(check, "set MASTER_ADDR=HOST and MASTER_PORT=PORT");
	return false;
}

/* gloo and torchrun give the address of this host's own name to the others. */
static void check_own_name(struct check *check)
{
	struct sockaddr_storage addr = { 0 };
	char name[256] = "";
	bool slow;

	if (*check->host.root || /* the name of that host is unknown */
	    gethostname(name, sizeof(name) - 1) || !*name || resolver_ask(name, &addr, &slow) ||
	    !address_is_loopback(&addr))
		return;
	found(check, CHECK_WARN, "hostname-loopback",
	      "this host's name, %s, resolves to an address of the loopback interface", name);
	found_why(check, "gloo and torchrun give that address to the others: \"connectFullMesh "
			 "failed\", time-outs");
	found_fix(check, "correct the name's line in /etc/hosts (127.0.1.1), or set "
			 "GLOO_SOCKET_IFNAME and MASTER_ADDR");
}

/* A job on several hosts needs an interface that reaches the others. */
static void check_way_out(struct check *check)
{
	struct text_list names = interfaces_of_nccl(&check->interfaces);
	bool any = false;

	for (size_t i = 0; i < names.count; i++)
		any |= interface_leads_out(&check->interfaces, names.items[i]);
	if (!any) {
		found(check, CHECK_ERROR, "no-way-out",
		      "the job has several hosts, but NCCL uses no interface here that reaches "
		      "another host: %s",
		      names.count ? text_list_join(&names, 8) : "none");
		found_why(check,
			  "ranks on other hosts wait for this host's ranks until they time out");
		found_fix(check, "ip -br addr: bring the NIC up and give it an address; docker run "
				 "--network=host; check NCCL_SOCKET_IFNAME");
	}
}

/* Only a definite answer is an error: a rank asks again, and a later name server may answer it. */
static void explain_unresolved(struct check *check, const char *name, int error)
{
	if (error == EAI_NONAME || error == EAI_NODATA) {
		found(check, CHECK_ERROR, "master-unresolved",
		      "MASTER_ADDR=%s cannot be resolved: %s", name, gai_strerror(error));
		found_why(check, "this host's ranks wait for rank 0 until they time out");
		found_fix(check, "use its IP address, or make the name resolvable on every host");
		return;
	}
	found(check, CHECK_WARN, "master-unanswered",
	      "whether MASTER_ADDR=%s can be resolved is not known: %s", name,
	      error == EAI_INPROGRESS
		      ? text_format("no name server has answered in %d s", RESOLVER_SECONDS)
		      : gai_strerror(error));
	found_why(check, "this host's ranks ask again when they start; without an answer they do "
			 "not find rank 0");
	found_fix(check, "use its IP address, or correct the name servers in /etc/resolv.conf");
}

static void explain_slow(struct check *check, const char *name)
{
	found(check, CHECK_WARN, "master-slow",
	      "the name server took more than %d s to resolve MASTER_ADDR=%s", RESOLVER_SLOW, name);
	found_why(check, "each rank waits for it when it starts");
	found_fix(check, "use its IP address, or remove name servers that do not answer from "
			 "/etc/resolv.conf");
}

void check_master(struct check *check, const struct layout *layout)
{
	const char *name = host_env("MASTER_ADDR");
	struct sockaddr_storage addr = { 0 };
	bool slow;
	int error;

	if (has_several_hosts(layout)) {
		check_way_out(check);
		check_own_name(check);
	}
	if (name && !has_form(check, name))
		return;
	if (!name) {
		check_port(check, layout, false);
		return;
	}
	error = resolver_ask(name, &addr, &slow);
	if (error) {
		explain_unresolved(check, name, error);
		return;
	}
	if (slow)
		explain_slow(check, name);
	check_place(check, layout, name, &addr);
}
