/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniBand and RoCE: the selector's verdicts, the state of each port, and limits that prevent its use. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nccl_net/subnet.h>

#include "transports/device/name_filter.h"

#define DEVICES       "/sys/class/infiniband"
#define VERBS         "/sys/class/infiniband_verbs"
#define MEMLOCK_LEAST ((rlim_t)64 << 20) /* a rank with a few peers pins more than this */
#define SLOW_S        20 /* to give up a connection; with the default it takes 2 s */

static void report_verdicts(struct check *check)
{
	for (int i = 0; i < check->probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &check->probe->candidates[i];

		if (candidate->transport == ANYNET_TRANSPORT_IB)
			found(check, candidate->usable ? CHECK_OK : CHECK_NOTE,
			      candidate->usable ? "usable" : "not-usable", "%s: %s%s",
			      candidate->name,
			      candidate->usable ? "" : "not used: ", candidate->reason);
	}
}

/* Returns the devices that anynet offers: "eth0 192.0.2.1, eth1 192.0.2.2". */
static const char *offered(const struct check *check)
{
	struct text_list names = { 0 };

	for (int i = 0; i < check->probe->device_count; i++) {
		const struct anynet_device *dev = &check->probe->devices[i];
		char address[INET6_ADDRSTRLEN];

		text_list_add(&names, text_format("%s %s", dev->name,
						  subnet_ip_text(&dev->addr, address)));
	}
	return names.count ? text_list_join(&names, 4) : "nothing";
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

	if (!net || strcasecmp(net, "IB") != 0 || has_usable(check))
		return;
	found(check, check->anynet_loads ? CHECK_WARN : CHECK_ERROR, "asked-without",
	      "NCCL_NET=%s, but InfiniBand cannot be used: %s: %s", net,
	      why ? why->name : "no device", why ? why->reason : "none is found");
	found_why(check,
		  check->anynet_loads
			  ? "anynet uses TCP on %s here; on a host without anynet NCCL has no "
			    "other network and fails with ncclInvalidUsage"
			  : "NCCL then has no other network and fails with ncclInvalidUsage "
			    "(\"Failed to open libibverbs.so[.1]\" or \"No device found\" in its "
			    "log); with anynet this works over TCP on %s",
		  offered(check));
	found_fix(check, check->anynet_loads
				 ? "nothing, if TCP is intended; otherwise unset NCCL_NET"
				 : "unset NCCL_NET, or let NCCL find anynet's libnccl-net.so "
				   "(LD_LIBRARY_PATH)");
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

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		long count =
			host_number(&check->host,
				    text_format("%s/counters/%s", port_path, counters[i].name), 0);

		if (count > counters[i].most)
			text_list_add(&bad, text_format("%s %ld", counters[i].name, count));
	}
	if (bad.count) {
		found(check, CHECK_WARN, "counters", "%s counts errors: %s", name,
		      text_list_join(&bad, ARRAY_SIZE(counters)));
		found_why(check, "a bad cable, transceiver or switch port: packets are "
				 "retransmitted, and NCCL may fail with error 12");
		found_fix(check, "clean or replace the cable, reset the counters (perfquery -R), "
				 "and check again under load");
	}
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
	found(check, CHECK_WARN, "port-narrow", "%s runs on one lane: %s", name, rate);
	found_why(check, "a collective is as fast as its slowest port");
	found_fix(check, "clean, reseat or replace the cable, and check the switch port "
			 "(ibportstate, mlxlink)");
}

static void report_inactive(struct check *check, const char *name, const char *layer,
			    const char *state)
{
	if (is_infiniband(layer) && state && (strstr(state, "INIT") || strstr(state, "ARMED"))) {
		found(check, CHECK_WARN, "port-no-manager", "%s has a link, but is not active (%s)",
		      name, state);
		found_why(check, "no subnet manager has assigned an address: NCCL reports \"No "
				 "device found\", or does not use the port");
		found_fix(check, "start the subnet manager (opensm, or the switch's), or find out "
				 "why it ignores this port (sminfo)");
	} else {
		found(check, CHECK_NOTE, "port-down", "%s is not active (%s)", name,
		      state ? state : "state unknown");
	}
}

static void check_port_of(struct check *check, const char *device, const char *port)
{
	char *path = text_format(DEVICES "/%s/ports/%s", device, port);
	char *name = text_format("%s:%s", device, port);
	const char *state = host_line(&check->host, text_format("%s/state", path));
	const char *layer = host_line(&check->host, text_format("%s/link_layer", path));
	const char *rate = host_line(&check->host, text_format("%s/rate", path));

	if (is_left_out(check, device, port)) {
		found(check, CHECK_NOTE, "port-left-out", "%s is excluded by the settings", name);
	} else if (state && strstr(state, "ACTIVE") && !strstr(state, "DEFER")) {
		found(check, CHECK_OK, "port", "%s is active, %s, %s", name,
		      layer ? layer : "link layer unknown", rate ? rate : "rate unknown");
		if (layer && !strcmp(layer, "Ethernet"))
			check_gids(check, path, name);
		check_width(check, name, layer, rate);
		check_counters(check, path, name);
	} else {
		report_inactive(check, name, layer, state);
	}
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
	found(check, CHECK_WARN, "memlock", "a process may pin only %llu KiB of memory",
	      (unsigned long long)limit.rlim_cur / 1024);
	found_why(check, "registering buffers fails: \"ibv_reg_mr … Cannot allocate memory\"");
	found_fix(check, "ulimit -l unlimited: in /etc/security/limits.conf, LimitMEMLOCK=infinity "
			 "in the unit of slurmd or docker, docker run --ulimit memlock=-1");
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
	char *device = host_line(&check->host, text_format(VERBS "/%s/ibdev", uverbs));
	int error = name ? open_error(name) : 0;

	if (error) {
		found(check, CHECK_WARN, "uverbs-denied", "%s%s%s%s cannot be opened: %s", path,
		      device ? " (" : "", device ? device : "", device ? ")" : "", strerror(error));
		found_why(check, "this user has no access to the device: NCCL does not use it, and "
				 "jobs may hang if hosts use different adapters");
		found_fix(check,
			  "chmod 666 %s, by a udev rule of rdma-core; in a container --device=%s",
			  path, path);
	}
	return name;
}

/* Returns the names of the device files, from the kernel's list, or else from /dev. */
static struct text_list uverbs_names(const struct check *check)
{
	struct text_list all = host_list(&check->host, VERBS), names = { 0 };

	if (!all.count)
		all = host_list(&check->host, "/dev/infiniband");
	for (size_t i = 0; i < all.count; i++) {
		if (!strncmp(all.items[i], "uverbs", 6))
			text_list_add(&names, all.items[i]);
	}
	return names;
}

static void check_uverbs(struct check *check)
{
	struct text_list names = uverbs_names(check), missing = { 0 };

	for (size_t i = 0; i < names.count; i++) {
		if (!check_uverbs_of(check, names.items[i]))
			text_list_add(&missing, names.items[i]);
	}
	if (!names.count || missing.count) {
		/* A container sees the devices of its host in /sys, and has its own ones in /dev. */
		found(check, missing.count < names.count ? CHECK_NOTE : CHECK_WARN,
		      "uverbs-missing", "there are verbs devices, but no /dev/infiniband/%s",
		      missing.count ? text_list_join(&missing, 8) : "uverbs*");
		found_why(check,
			  "programs cannot open them; a container may lack the device nodes");
		found_fix(check, "modprobe ib_uverbs; docker run --device=/dev/infiniband");
	}
}

/* Settings with which queue pairs cannot do what they are for. */
static void check_queue_pairs(struct check *check)
{
	const struct anynet_config *cfg = &check->config;
	/* After each of these times without an acknowledgement the NIC sends again, and after the last it gives up. */
	double seconds = 4.096e-6 * (double)(1U << cfg->ib_timeout) * (cfg->ib_retry_cnt + 1);

	if (cfg->checksum && cfg->transport == ANYNET_CHOOSE_IB) {
		found(check, CHECK_ERROR, "checksum-over-ib",
		      "ANYNET_CHECKSUM=1 with ANYNET_TRANSPORT=ib");
		found_why(check,
			  "checksums need TCP, which the other setting forbids: nothing connects");
		found_fix(check, "unset one of the two");
	}
	if (seconds > SLOW_S) {
		found(check, CHECK_NOTE, "slow-failover",
		      "with %s=%d a NIC gives up a connection after %.0f s",
		      host_env("ANYNET_IB_TIMEOUT") ? "ANYNET_IB_TIMEOUT" : "NCCL_IB_TIMEOUT",
		      cfg->ib_timeout, seconds);
		found_why(check, "only then does anynet use another path");
		found_fix(check, "export ANYNET_IB_TIMEOUT=16: 2 s");
	}
}

void check_ib(struct check *check)
{
	struct text_list devices = host_list(&check->host, DEVICES);

	report_verdicts(check);
	check_asked(check);
	for (size_t i = 0; i < devices.count; i++) {
		struct text_list ports =
			host_list(&check->host, text_format(DEVICES "/%s/ports", devices.items[i]));

		for (size_t j = 0; j < ports.count; j++)
			check_port_of(check, devices.items[i], ports.items[j]);
	}
	if (has_usable(check))
		check_queue_pairs(check);
	if (devices.count && !check->config.ib_disable) {
		check_memlock(check);
		check_uverbs(check);
	}
}
