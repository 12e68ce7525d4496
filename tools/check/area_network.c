/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, and the kernel's limits on sockets. */
#include "check.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SHOWN_MAX     40
#define RTT_US        500    /* round trip that a window should cover: a few switches */
#define WINDOW_LEAST  262144 /* smaller windows are slow on any network */
#define BACKLOG_LEAST 128
#define PORTS_LEAST   1000
#define FILES_LEAST   1024
#define NETWORK_SPEED 10000 /* Mb/s, if the interface's speed is unknown */

static bool is_chosen(const struct check *check, size_t i)
{
	return check->interfaces.verdicts[i].chosen;
}

long interface_mtu(const struct check *check, const char *name)
{
	return host_number(&check->host, text_format("/sys/class/net/%s/mtu", name), 0);
}

static void report_interface(struct check *check, size_t i)
{
	const struct netif_link *link = &check->interfaces.table.links[i];
	const struct netif_verdict *verdict = &check->interfaces.verdicts[i];
	long mtu = interface_mtu(check, link->name);
	char address[INET6_ADDRSTRLEN], speed[32] = "speed unknown", size[32] = "";

	if (link->speed_mbps > 0)
		snprintf(speed, sizeof(speed), "%d Mb/s", link->speed_mbps);
	if (mtu > 0)
		snprintf(size, sizeof(size), ", MTU %ld", mtu);
	found(check, verdict->chosen ? CHECK_OK : CHECK_NOTE,
	      verdict->chosen ? "interface" : "interface-unused", "%s %s, %s%s, %s: %s%s",
	      link->name, interface_kind(&check->interfaces, i), speed, size,
	      interface_address(&check->interfaces, i, address),
	      verdict->chosen ? "used for TCP" : "not used, ",
	      verdict->chosen ? "" : verdict->reason);
	if (verdict->chosen && mtu > 0 && mtu < 1280) {
		found(check, CHECK_WARN, "mtu-small", "%s has an MTU of %ld", link->name, mtu);
		found_why(check, "small packets cost more CPU time per byte");
		found_fix(check, "ip link set %s mtu 1500, or what its network supports",
			  link->name);
	}
}

static void report_interfaces(struct check *check)
{
	size_t shown = 0, others = 0;

	if (check->interfaces.error) {
		found(check, CHECK_WARN, "interfaces-unreadable",
		      "the kernel does not list its interfaces: %s",
		      strerror(check->interfaces.error));
		found_why(check, "neither NCCL nor anynet finds an interface");
	}
	for (size_t i = 0; i < check->interfaces.table.link_count; i++) {
		if (is_chosen(check, i) ||
		    (shown < SHOWN_MAX && check->interfaces.verdicts[i].addr)) {
			report_interface(check, i);
			shown++;
		} else {
			others++;
		}
	}
	if (others)
		found(check, CHECK_NOTE, "interfaces-others",
		      "%zu more interfaces without an address, or not used", others);
}

/* True for interfaces that do not reach other hosts: lo, and bridges for containers. */
static bool is_local(const struct check *check, const char *name)
{
	for (size_t i = 0; i < check->interfaces.table.link_count; i++) {
		if (!strcmp(check->interfaces.table.links[i].name, name))
			return check->interfaces.verdicts[i].class >= NETIF_LOCAL;
	}
	return false;
}

/* NCCL uses interfaces that do not reach other hosts, by default or because an exclude list admits
 * them. If the user has named them, check_conflicts reports it. */
static void report_local(struct check *check, const struct text_list *names, bool first_local)
{
	const char *filter = host_env("NCCL_SOCKET_IFNAME");
	const char *text = "";

	if (filter && *filter != '^')
		return;
	for (size_t i = 0; i < names->count; i++) {
		if (!is_local(check, names->items[i]))
			continue;
		text = text_format("%s%s%s", text, *text ? "," : "", names->items[i]);
	}
	if (filter)
		found(check, CHECK_WARN, "ifname-lets-in",
		      "NCCL_SOCKET_IFNAME=%s includes interfaces that do not reach other hosts: %s",
		      filter, text);
	else
		found(check, CHECK_WARN, "nccl-takes-bridge",
		      "NCCL itself uses interfaces that do not reach other hosts: %s", text);
	found_why(check, "%s",
		  first_local ? "its bootstrap uses the first of its interfaces: ranks on other "
				"hosts wait until they time out"
			      : "without a plugin it sends data over all its interfaces: ranks on "
				"other hosts wait until they time out");
	if (filter)
		found_fix(check,
			  "export NCCL_SOCKET_IFNAME=%s,%s or unset it: NCCL excludes docker, lo "
			  "and virbr only while it is unset",
			  filter, text);
	else
		found_fix(check,
			  "export NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-,veth or name the NIC");
}

/* Reports the interfaces NCCL selects itself: for its bootstrap always, for data without a plugin. */
static void check_nccls_choice(struct check *check)
{
	struct text_list names = interfaces_of_nccl(&check->interfaces);
	bool first_local = names.count && is_local(check, names.items[0]);
	bool any_local = first_local, any_real = false;

	for (size_t i = 0; i < names.count; i++)
		any_local |= is_local(check, names.items[i]);
	for (size_t i = 0; i < check->interfaces.table.link_count; i++)
		any_real |= interface_works(&check->interfaces, i) &&
			    check->interfaces.verdicts[i].class < NETIF_LOCAL;
	found(check,
	      names.count                                    ? CHECK_OK
	      : findings_have(&check->report, "ifname-none") ? CHECK_NOTE
							     : CHECK_WARN,
	      "nccls-choice", "NCCL's own choice, for its bootstrap and without a plugin: %s",
	      names.count ? text_list_join(&names, 8) : "none");
	if (any_real && any_local && (first_local || !check->anynet_loads))
		report_local(check, &names, first_local);
}

/* Returns the speed of the fastest interface in use, in Mb/s. */
static long fastest(const struct check *check)
{
	long speed = 0;

	for (size_t i = 0; i < check->interfaces.table.link_count; i++) {
		if (is_chosen(check, i) && check->interfaces.table.links[i].speed_mbps > speed)
			speed = check->interfaces.table.links[i].speed_mbps;
	}
	return speed ? speed : NETWORK_SPEED;
}

/* The last of the three numbers is the limit of autotuning. */
static void check_window(struct check *check, const char *name)
{
	char *line = host_line(&check->host, text_format("/proc/sys/net/ipv4/%s", name));
	long least, usual, most, wanted = fastest(check) * RTT_US / 8;

	if (line && sscanf(line, "%ld %ld %ld", &least, &usual, &most) == 3 && most > 0) {
		bool bad = most < WINDOW_LEAST;

		found(check,
		      bad             ? CHECK_WARN
		      : most < wanted ? CHECK_NOTE
				      : CHECK_OK,
		      "window", "%s: a connection may have %ld bytes in flight%s", name, most,
		      most < wanted ? ", less than the fastest NIC needs for a round trip of 0.5 "
				      "ms; several connections compensate"
				    : "");
		if (bad) {
			found_why(check,
				  "a connection then carries no more than that per round trip");
			found_fix(check, "sysctl -w net.ipv4.%s='4096 131072 %ld'", name,
				  wanted > 6291456 ? wanted : 6291456L);
		}
	}
}

static void check_backlog(struct check *check)
{
	long most = host_number(&check->host, "/proc/sys/net/core/somaxconn", -1);

	if (most < 0 || most >= BACKLOG_LEAST)
		return;
	found(check, CHECK_WARN, "somaxconn",
	      "net.core.somaxconn is %ld: the maximum number of connections that wait to be "
	      "accepted",
	      most);
	found_why(check, "when many ranks connect at once, the others are refused or wait");
	found_fix(check, "sysctl -w net.core.somaxconn=4096");
}

static void check_ports(struct check *check)
{
	char *line = host_line(&check->host, "/proc/sys/net/ipv4/ip_local_port_range");
	const struct anynet_config *cfg = &check->config;
	long low = 0, high = 0, local = -1;
	const char *processes = host_env("LOCAL_WORLD_SIZE");

	if (processes)
		local = strtol(processes, NULL, 10);
	if (line && sscanf(line, "%ld %ld", &low, &high) == 2 && high - low + 1 < PORTS_LEAST) {
		found(check, CHECK_WARN, "ports-few",
		      "net.ipv4.ip_local_port_range has %ld ports for connections", high - low + 1);
		found_why(check, "each connection of each rank uses one");
		found_fix(check, "sysctl -w net.ipv4.ip_local_port_range='32768 60999'");
	}
	if (cfg->port_min && low <= cfg->port_max && cfg->port_min <= high)
		found(check, CHECK_NOTE, "port-range-shared",
		      "ANYNET_PORT_RANGE %d-%d overlaps the kernel's ephemeral ports: another "
		      "connection may use one of them",
		      cfg->port_min, cfg->port_max);
	if (cfg->port_min && local > cfg->port_max - cfg->port_min + 1) {
		found(check, CHECK_WARN, "port-range-small",
		      "ANYNET_PORT_RANGE has %d ports for %ld processes on this host",
		      cfg->port_max - cfg->port_min + 1, local);
		found_why(check, "each process listens on one of them for each NIC; the last "
				 "processes fail");
		found_fix(check, "enlarge the range, also in the firewall");
	}
}

static void check_files_limit(struct check *check)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (limit.rlim_cur >= FILES_LEAST) {
		found(check, CHECK_OK, "descriptors", "a process may open %lld file descriptors",
		      limit.rlim_cur == RLIM_INFINITY ? LLONG_MAX : (long long)limit.rlim_cur);
		return;
	}
	found(check, CHECK_WARN, "descriptors-few", "a process may open only %llu file descriptors",
	      (unsigned long long)limit.rlim_cur);
	found_why(check, "each connection uses one; NCCL itself opens several per peer");
	found_fix(check, "ulimit -n 65536, or LimitNOFILE= in the service's unit");
}

void check_network(struct check *check)
{
	report_interfaces(check);
	check_nccls_choice(check);
	check_routes(check);
	check_window(check, "tcp_rmem");
	check_window(check, "tcp_wmem");
	check_backlog(check);
	check_ports(check);
	check_files_limit(check);
	check_firewall(check);
}
