/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniBand and RoCE: the selector's verdicts, the state of each port, and limits that prevent its use. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transports/device/name_filter.h"

#define AREA          "ib"
#define DEVICES       "/sys/class/infiniband"
#define VERBS         "/sys/class/infiniband_verbs"
#define MEMLOCK_LEAST ((rlim_t)64 << 20) /* a rank with a few peers pins more than this */

static void report_verdicts(struct check *check)
{
	for (int i = 0; i < check->probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &check->probe->candidates[i];

		if (candidate->transport == ANYNET_TRANSPORT_IB)
			finding_add(&check->report, candidate->usable ? CHECK_OK : CHECK_NOTE, AREA,
				    candidate->usable ? "usable" : "not-usable", "%s: %s%s",
				    candidate->name,
				    candidate->usable ? "" : "not used: ", candidate->reason);
	}
}

/* Returns the devices that anynet offers: "eth0 192.0.2.1, eth1 192.0.2.2". The caller frees the text. */
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
		if (check->probe->devices[i].transport == ANYNET_TRANSPORT_IB)
			return true;
	}
	return false;
}

/* Returns the first unusable InfiniBand candidate, which has the selector's reason. */
static const struct anynet_candidate *refusal(const struct check *check)
{
	for (int i = 0; i < check->probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &check->probe->candidates[i];

		if (candidate->transport == ANYNET_TRANSPORT_IB && !candidate->usable)
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
			? "anynet uses TCP on %s here; on a host without anynet NCCL has no "
			  "other network and fails with ncclInvalidUsage"
			: "NCCL then has no other network and fails with ncclInvalidUsage "
			  "(\"Failed to open libibverbs.so[.1]\" or \"No device found\" in its "
			  "log); with anynet this works over TCP on %s",
		devices);
	finding_fix(&check->report,
		    check->anynet_loads
			    ? "nothing, if TCP is intended; otherwise unset NCCL_NET"
			    : "unset NCCL_NET, or let NCCL find anynet's libnccl-net.so "
			      "(LD_LIBRARY_PATH)");
	free(devices);
}

static void check_counters(struct check *check, const char *port_path, const char *name)
{
	/* Plugging cables and booting cause a few. */
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
		finding_why(&check->report, "a bad cable, transceiver or switch port: packets "
					    "are retransmitted, and NCCL may fail with error 12");
		finding_fix(&check->report, "clean or replace the cable, reset the counters "
					    "(perfquery -R), and check again under load");
	}
	free(names);
	text_list_free(&bad);
}

/* True if NCCL_IB_HCA, NCCL_IB_DISABLE or anynet's settings exclude the port. */
static bool is_left_out(const struct check *check, const char *device, const char *port)
{
	return check->config.ib_disable ||
	       !name_filter_pass(check->config.ib_hca, device, (int)strtol(port, NULL, 10));
}

static bool is_infiniband(const char *layer)
{
	return layer && !strcmp(layer, "InfiniBand");
}

/* One lane instead of four: a cable or connector on which three fail. RoCE ports may have one by design. */
static void check_width(struct check *check, const char *name, const char *layer, const char *rate)
{
	if (!is_infiniband(layer) || !rate || !strstr(rate, "(1X "))
		return;
	finding_add(&check->report, CHECK_WARN, AREA, "port-narrow", "%s runs on one lane: %s",
		    name, rate);
	finding_why(&check->report, "a collective is as fast as its slowest port");
	finding_fix(&check->report, "clean, reseat or replace the cable, and check the switch "
				    "port (ibportstate, mlxlink)");
}

static void report_inactive(struct check *check, const char *name, const char *layer,
			    const char *state)
{
	if (is_infiniband(layer) && state && (strstr(state, "INIT") || strstr(state, "ARMED"))) {
		finding_add(&check->report, CHECK_WARN, AREA, "port-no-manager",
			    "%s has a link, but is not active (%s)", name, state);
		finding_why(&check->report, "no subnet manager has assigned an address: NCCL "
					    "reports \"No device found\", or does not use the "
					    "port");
		finding_fix(&check->report, "start the subnet manager (opensm, or the switch's), "
					    "or find out why it ignores this port (sminfo)");
	} else {
		finding_add(&check->report, CHECK_NOTE, AREA, "port-down", "%s is not active (%s)",
			    name, state ? state : "state unknown");
	}
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
	if (is_left_out(check, device, port)) {
		finding_add(&check->report, CHECK_NOTE, AREA, "port-left-out",
			    "%s is excluded by the settings", name);
	} else if (state && strstr(state, "ACTIVE") && !strstr(state, "DEFER")) {
		finding_add(&check->report, CHECK_OK, AREA, "port", "%s is active, %s, %s", name,
			    layer ? layer : "link layer unknown", rate ? rate : "rate unknown");
		if (layer && !strcmp(layer, "Ethernet"))
			check_gids(check, path, name);
		check_width(check, name, layer, rate);
		check_counters(check, path, name);
	} else {
		report_inactive(check, name, layer, state);
	}
	free(rate);
	free(layer);
	free(state);
	free(name);
	free(path);
}

/* RLIMIT_MEMLOCK does not apply to processes with CAP_IPC_LOCK in the initial user namespace, which
 * only the kernel can test. The test uses no memory: MLOCK_ONFAULT locks pages on first use, and
 * these are never used. */
static bool may_lock(void)
{
	void *memory = mmap(NULL, MEMLOCK_LEAST, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool locked;

	if (memory == MAP_FAILED)
		return false;
	locked = !mlock2(memory, MEMLOCK_LEAST, MLOCK_ONFAULT);
	munmap(memory, MEMLOCK_LEAST);
	return locked;
}

static void check_memlock(struct check *check)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur >= MEMLOCK_LEAST || may_lock())
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

/* Opens the file as a program would. Returns 0 or errno. Permissions are not sufficient: the device
 * list of a container may deny access as well. */
static int open_error(const char *name)
{
	int fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Checks that this process can open a verbs device. Returns false if its device file does not exist. */
static bool check_uverbs_of(struct check *check, const char *uverbs)
{
	char *path = text_format("/dev/infiniband/%s", uverbs);
	char *name = host_open_name(&check->host, path);
	char *file = text_format(VERBS "/%s/ibdev", uverbs);
	char *device = host_line(&check->host, file);
	int error = name ? open_error(name) : 0;
	bool there = name;

	if (there && error) {
		finding_add(&check->report, CHECK_WARN, AREA, "uverbs-denied",
			    "%s%s%s%s cannot be opened: %s", path, device ? " (" : "",
			    device ? device : "", device ? ")" : "", strerror(error));
		finding_why(&check->report, "this user has no access to the device: NCCL does "
					    "not use it, and jobs may hang if hosts use "
					    "different adapters");
		finding_fix(&check->report,
			    "chmod 666 %s, by a udev rule of rdma-core; in a container "
			    "--device=%s",
			    path, path);
	}
	free(device);
	free(file);
	free(name);
	free(path);
	return there;
}

/* Returns the names of the device files, from the kernel's list, or else from /dev. */
static struct text_list uverbs_names(const struct check *check)
{
	struct text_list all = host_list(&check->host, VERBS), names = { 0 };

	if (!all.count)
		all = host_list(&check->host, "/dev/infiniband");
	for (size_t i = 0; i < all.count; i++) {
		if (!strncmp(all.items[i], "uverbs", 6))
			text_list_add(&names, text_copy(all.items[i], strlen(all.items[i])));
	}
	text_list_free(&all);
	return names;
}

static void check_uverbs(struct check *check)
{
	struct text_list names = uverbs_names(check), missing = { 0 };
	char *text;

	for (size_t i = 0; i < names.count; i++) {
		if (!check_uverbs_of(check, names.items[i]))
			text_list_add(&missing, text_copy(names.items[i], strlen(names.items[i])));
	}
	text = text_list_join(&missing, 8);
	if (!names.count || missing.count) {
		finding_add(&check->report, CHECK_WARN, AREA, "uverbs-missing",
			    "there are verbs devices, but no /dev/infiniband/%s",
			    missing.count ? text : "uverbs*");
		finding_why(&check->report, "programs cannot open them; a container may lack the "
					    "device nodes");
		finding_fix(&check->report,
			    "modprobe ib_uverbs; docker run --device=/dev/infiniband");
	}
	free(text);
	text_list_free(&missing);
	text_list_free(&names);
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
	if (devices.count && !check->config.ib_disable) {
		check_memlock(check);
		check_uverbs(check);
	}
	text_list_free(&devices);
}
