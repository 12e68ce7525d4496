/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniBand and RoCE: the selector's verdicts, what the kernel tells of each port, and the limits that
 * stand in the way. */
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#define AREA          "ib"
#define DEVICES       "/sys/class/infiniband"
#define MEMLOCK_LEAST ((rlim_t)64 << 20) /* a rank with a few peers pins more than that */
#define GIDS_MAX      256
#define EMPTY_GID     "0000:0000:0000:0000:0000:0000:0000:0000"

static void report_verdicts(struct check *check)
{
	for (int i = 0; i < check->probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &check->probe->candidates[i];

		if (candidate->link == ANYNET_LINK_IB)
			finding_add(&check->report, candidate->usable ? CHECK_OK : CHECK_NOTE, AREA,
				    candidate->usable ? "usable" : "not-usable", "%s: %s%s",
				    candidate->name,
				    candidate->usable ? "" : "not used: ", candidate->reason);
	}
}

/* "eth0 192.0.2.1, eth1 192.0.2.2": what anynet offers. The caller's. */
static char *offered(const struct check *check)
{
	struct text_list names = { 0 };
	char *text;

	for (int i = 0; i < check->probe->device_count; i++) {
		const struct anynet_device *dev = &check->probe->devices[i];
		char address[INET6_ADDRSTRLEN];

		text_list_add(&names, text_format("%s %s", dev->name,
						  netif_addr_text(&dev->addr, address)));
	}
	text = names.count ? text_list_join(&names, 4) : text_format("nothing");
	text_list_free(&names);
	return text;
}

static bool has_usable(const struct check *check)
{
	for (int i = 0; i < check->probe->device_count; i++) {
		if (check->probe->devices[i].link == ANYNET_LINK_IB)
			return true;
	}
	return false;
}

/* The reason why there is no InfiniBand, as the selector gives it. */
static const struct anynet_candidate *refusal(const struct check *check)
{
	for (int i = 0; i < check->probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &check->probe->candidates[i];

		if (candidate->link == ANYNET_LINK_IB && !candidate->usable)
			return candidate;
	}
	return NULL;
}

static void check_asked(struct check *check)
{
	const char *net = host_env("NCCL_NET");
	const struct anynet_candidate *why = refusal(check);
	char *devices;

	if (!net || strcasecmp(net, "IB") != 0 || has_usable(check))
		return;
	devices = offered(check);
	finding_add(&check->report, check->anynet_loads ? CHECK_WARN : CHECK_ERROR, AREA,
		    "asked-without", "NCCL_NET=%s, but InfiniBand cannot be used: %s: %s", net,
		    why ? why->name : "no device", why ? why->reason : "none is found");
	finding_why(
		&check->report,
		check->anynet_loads
			? "anynet goes over TCP on %s here; on a host without anynet NCCL has no "
			  "other network and ends with ncclInvalidUsage"
			: "NCCL has no other network then and ends with ncclInvalidUsage "
			  "(\"Failed to open libibverbs.so[.1]\" or \"No device found\" in its log); "
			  "with anynet this works over TCP on %s",
		devices);
	finding_fix(&check->report,
		    check->anynet_loads
			    ? "nothing, if TCP is meant; else unset NCCL_NET"
			    : "unset NCCL_NET, or let NCCL find anynet's libnccl-net.so "
			      "(LD_LIBRARY_PATH)");
	free(devices);
}

static void check_gids(struct check *check, const char *port_path, const char *name)
{
	const char *asked = host_env("NCCL_IB_GID_INDEX");
	long index = asked ? strtol(asked, NULL, 0) : -1;
	char *path = text_format("%s/gids", port_path);
	struct text_list gids = host_list(&check->host, path);
	size_t filled = 0;
	bool asked_is_there = false;

	for (size_t i = 0; i < gids.count && i < GIDS_MAX; i++) {
		char *file = text_format("%s/%s", path, gids.items[i]);
		char *gid = host_line(&check->host, file);

		if (gid && *gid && strcmp(gid, EMPTY_GID) != 0) {
			filled++;
			asked_is_there |= strtol(gids.items[i], NULL, 10) == index;
		}
		free(gid);
		free(file);
	}
	if (gids.count && !filled) {
		finding_add(&check->report, CHECK_WARN, AREA, "gids-none", "%s has no GID", name);
		finding_why(&check->report, "RoCE takes its addresses from the interface of the "
					    "port, which has none, or is another namespace's");
		finding_fix(&check->report, "give the interface an IP address");
	} else if (filled && index >= 0 && !asked_is_there) {
		finding_add(&check->report, CHECK_ERROR, AREA, "gid-empty",
			    "NCCL_IB_GID_INDEX=%s, but %s has no GID there", asked, name);
		finding_why(&check->report, "connecting fails with \"No such device\" or \"Network "
					    "is unreachable\"; the numbers differ between hosts");
		finding_fix(&check->report, "unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer and "
					    "anynet choose for each port");
	}
	text_list_free(&gids);
	free(path);
}

static void check_counters(struct check *check, const char *port_path, const char *name)
{
	/* A few come from plugging and booting. */
	static const struct {
		const char *name;
		long most;
	} counters[] = {
		{ "symbol_error", 100 },
		{ "link_error_recovery", 10 },
		{ "link_downed", 20 },
		{ "port_rcv_errors", 100 },
		{ "local_link_integrity_errors", 10 },
	};
	struct text_list bad = { 0 };
	char *names;

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		char *path = text_format("%s/counters/%s", port_path, counters[i].name);
		long count = host_number(&check->host, path, 0);

		if (count > counters[i].most)
			text_list_add(&bad, text_format("%s %ld", counters[i].name, count));
		free(path);
	}
	names = text_list_join(&bad, ARRAY_SIZE(counters));
	if (bad.count) {
		finding_add(&check->report, CHECK_WARN, AREA, "counters", "%s counts errors: %s",
			    name, names);
		finding_why(&check->report, "a bad cable, transceiver or switch port: packets are "
					    "sent again, and in the end NCCL fails with error 12");
		finding_fix(&check->report, "clean or change the cable, reset the counters "
					    "(perfquery -R), and look again under load");
	}
	free(names);
	text_list_free(&bad);
}

static void check_port_of(struct check *check, const char *device, const char *port)
{
	char *path = text_format(DEVICES "/%s/ports/%s", device, port), *file;
	char *name = text_format("%s:%s", device, port), *state, *layer, *rate;

	file = text_format("%s/state", path);
	state = host_line(&check->host, file);
	free(file);
	file = text_format("%s/link_layer", path);
	layer = host_line(&check->host, file);
	free(file);
	file = text_format("%s/rate", path);
	rate = host_line(&check->host, file);
	free(file);
	if (state && strstr(state, "ACTIVE") && !strstr(state, "DEFER")) {
		finding_add(&check->report, CHECK_OK, AREA, "port", "%s is active, %s, %s", name,
			    layer ? layer : "link layer not known", rate ? rate : "rate not known");
		if (layer && !strcmp(layer, "Ethernet"))
			check_gids(check, path, name);
		check_counters(check, path, name);
	} else {
		finding_add(&check->report, CHECK_NOTE, AREA, "port-down", "%s is not active (%s)",
			    name, state ? state : "state not known");
	}
	free(rate);
	free(layer);
	free(state);
	free(name);
	free(path);
}

static void check_memlock(struct check *check)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur >= MEMLOCK_LEAST)
		return;
	finding_add(&check->report, CHECK_WARN, AREA, "memlock",
		    "a process may pin only %llu KiB of memory",
		    (unsigned long long)limit.rlim_cur / 1024);
	finding_why(&check->report, "registering buffers fails: \"ibv_reg_mr … Cannot allocate "
				    "memory\"");
	finding_fix(&check->report,
		    "ulimit -l unlimited: in /etc/security/limits.conf, LimitMEMLOCK=infinity in "
		    "the unit of slurmd or docker, docker run --ulimit memlock=-1");
}

static void check_uverbs(struct check *check)
{
	struct text_list entries = host_list(&check->host, "/dev/infiniband");
	size_t count = 0;

	for (size_t i = 0; i < entries.count; i++) {
		char *path, *name;

		if (strncmp(entries.items[i], "uverbs", 6) != 0)
			continue;
		count++;
		path = text_format("/dev/infiniband/%s", entries.items[i]);
		name = host_open_name(&check->host, path);
		if (name && access(name, R_OK | W_OK)) {
			finding_add(&check->report, CHECK_WARN, AREA, "uverbs-denied",
				    "%s cannot be opened: %s", path, strerror(errno));
			finding_why(&check->report, "the device is there, but not for this user");
			finding_fix(&check->report, "chmod 666 %s, by a udev rule of rdma-core",
				    path);
		}
		free(name);
		free(path);
	}
	if (!count) {
		finding_add(&check->report, CHECK_WARN, AREA, "uverbs-missing",
			    "there are verbs devices, but no /dev/infiniband/uverbs*");
		finding_why(&check->report, "programs cannot open them: as in a container that was "
					    "not given them");
		finding_fix(&check->report,
			    "modprobe ib_uverbs; docker run --device=/dev/infiniband");
	}
	text_list_free(&entries);
}

void check_ib(struct check *check)
{
	struct text_list devices = host_list(&check->host, DEVICES);

	report_verdicts(check);
	check_asked(check);
	for (size_t i = 0; i < devices.count; i++) {
		char *path = text_format(DEVICES "/%s/ports", devices.items[i]);
		struct text_list ports = host_list(&check->host, path);

		for (size_t j = 0; j < ports.count; j++)
			check_port_of(check, devices.items[i], ports.items[j]);
		text_list_free(&ports);
		free(path);
	}
	if (devices.count) {
		check_memlock(check);
		check_uverbs(check);
	}
	text_list_free(&devices);
}
