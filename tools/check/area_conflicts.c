/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that conflict with each other, or with the interfaces and devices of this host. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "transports/device/name_filter.h"

/* True if every working interface that matches the filter is of this class or a worse one. */
static bool are_at_best(const struct check *check, const char *filter, enum netif_class class)
{
	const struct interfaces *interfaces = &check->interfaces;

	for (size_t i = 0; i < interfaces->table.link_count; i++) {
		if (interface_works(interfaces, i) && interfaces->verdicts[i].class < class &&
		    name_filter_pass(filter, interfaces->table.links[i].name, -1))
			return false;
	}
	return true;
}

/* Finds entries of a prefix list that are the whole name of one interface and a prefix of others. */
static void check_prefixes(struct check *check, const char *name, const char *filter)
{
	const struct netif_table *table = &check->interfaces.table;

	if (*filter == '^' || *filter == '=')
		return;
	for (size_t i = 0; i < table->link_count; i++) {
		const char *link = table->links[i].name;
		struct text_list matched;

		if (!name_filter_names(filter, link))
			continue;
		matched = interfaces_matching(&check->interfaces, link);
		if (matched.count > 1 && text_list_has(&matched, link)) {
			found(check, CHECK_WARN, "ifname-prefix", "%s=%s matches more than %s: %s",
			      name, filter, link, text_list_join(&matched, 8));
			found_why(check,
				  "names are prefixes; traffic is spread over all that match");
			found_fix(check, "export %s==%s for this interface alone", name, link);
		}
	}
}

/* Lists the interfaces that could be named instead. */
static const char *usable_names(const struct check *check)
{
	struct text_list names = interfaces_matching(&check->interfaces, "^=lo");

	return names.count ? text_list_join(&names, 8) : "none but lo";
}

static void report_no_interface(struct check *check, const char *name, const char *filter)
{
	bool nccls = !strncmp(name, "NCCL_", 5);

	found(check, nccls ? CHECK_ERROR : CHECK_WARN, "ifname-none",
	      "%s=%s matches no interface that is up and has an address", name, filter);
	found_why(check, nccls ? "NCCL's own bootstrap needs one and fails with \"no socket "
				 "interface found\", with any plugin"
			       : "anynet ignores it with a warning");
}

static void check_ifname(struct check *check, const char *name)
{
	const char *filter = host_env(name);
	const char *usable = usable_names(check);
	struct text_list matched;

	if (!filter || strlen(filter) < 2)
		return;
	matched = interfaces_matching(&check->interfaces, filter);
	if (!matched.count) {
		report_no_interface(check, name, filter);
		found_fix(check, "unset it, or name one of: %s", usable);
	} else if (are_at_best(check, filter, NETIF_LOCAL)) {
		found(check, CHECK_WARN,
		      are_at_best(check, filter, NETIF_LOOPBACK) ? "ifname-loopback"
								 : "ifname-local",
		      "%s=%s leaves only %s, which does not reach other hosts", name, filter,
		      text_list_join(&matched, 8));
		found_why(check, "ranks of one host can connect, ranks of several hosts cannot");
		found_fix(check, "unset it, or name one of: %s", usable);
	} else {
		check_prefixes(check, name, filter);
	}
}

/* Interfaces for PyTorch's own connections: full names, without ^ or =. */
static void check_gloo(struct check *check, const char *name)
{
	const char *value = host_env(name);

	if (!value || interfaces_matching(&check->interfaces, text_format("=%s", value)).count)
		return;
	found(check, CHECK_ERROR, "ifname-none",
	      "%s=%s is no interface that is up and has an address", name, value);
	found_why(check, "PyTorch's own connections (Gloo, TensorPipe) fail: \"Unable to find "
			 "address for\"");
	found_fix(check, "unset it, or name one of: %s", usable_names(check));
}

static void check_sockets(struct check *check)
{
	const char *threads = host_env("NCCL_SOCKET_NTHREADS");
	const char *sockets = host_env("NCCL_NSOCKS_PERTHREAD");
	long product;

	if (!threads || !sockets ||
	    __builtin_mul_overflow(strtol(threads, NULL, 0), strtol(sockets, NULL, 0), &product) ||
	    product <= 64 || product > 1024 * 1024)
		return;
	found(check, CHECK_WARN, "too-many-sockets",
	      "NCCL_SOCKET_NTHREADS=%s times NCCL_NSOCKS_PERTHREAD=%s is %ld sockets per "
	      "connection; the maximum is 64",
	      threads, sockets, product);
	found_why(check, "NCCL uses fewer sockets per thread, anynet 64 TCP connections");
	found_fix(check, "reduce them to a product of at most 64; anynet needs neither");
}

static bool is_on(const char *name)
{
	const char *value = host_env(name);

	return value && strtol(value, NULL, 0) != 0;
}

static void check_ib_disabled(struct check *check)
{
	const char *net = host_env("NCCL_NET"), *transport = host_env("ANYNET_TRANSPORT");

	if (is_on("NCCL_IB_DISABLE") && net && !strcasecmp(net, "IB")) {
		found(check, check->anynet_loads ? CHECK_WARN : CHECK_ERROR,
		      "ib-asked-and-disabled", "NCCL_NET=%s with NCCL_IB_DISABLE=%s", net,
		      host_env("NCCL_IB_DISABLE"));
		found_why(
			check,
			check->anynet_loads
				? "one requests InfiniBand, the other disables it: anynet uses TCP"
				: "one requests InfiniBand, the other disables it: NCCL has no "
				  "network left and fails with ncclInvalidUsage");
		found_fix(check, "unset one of the two");
	}
	if (transport && !strcasecmp(transport, "ib") &&
	    (is_on("NCCL_IB_DISABLE") || is_on("ANYNET_IB_DISABLE"))) {
		found(check, CHECK_WARN, "ib-asked-and-disabled",
		      "ANYNET_TRANSPORT=ib with InfiniBand disabled");
		found_why(check, "anynet uses TCP");
		found_fix(check,
			  "unset NCCL_IB_DISABLE and ANYNET_IB_DISABLE, or ANYNET_TRANSPORT");
	}
	if (transport && net && !strcasecmp(transport, "tcp") && !strcasecmp(net, "IB")) {
		found(check, CHECK_WARN, "ib-asked-and-disabled",
		      "NCCL_NET=%s with ANYNET_TRANSPORT=%s", net, transport);
		found_why(check, "anynet's own setting has precedence: TCP");
		found_fix(check, "unset one of the two");
	}
}

/* Finds minimums that exceed the matching maximums. */
static void check_limits(struct check *check)
{
	static const struct {
		const char *least, *most;
	} pairs[] = {
		{ "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS" },
		{ "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS" },
		{ "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS" },
		{ "NCCL_MIN_CTAS", "NCCL_MAX_CTAS" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const char *least = host_env(pairs[i].least), *most = host_env(pairs[i].most);

		if (!least || !most || strtol(least, NULL, 0) <= strtol(most, NULL, 0))
			continue;
		found(check, CHECK_WARN, "least-above-most", "%s=%s is above %s=%s", pairs[i].least,
		      least, pairs[i].most, most);
		found_why(check, "it is not documented which of the two NCCL uses");
		found_fix(check, "unset one of them");
	}
}

static void check_hca(struct check *check)
{
	const char *filter = host_env("NCCL_IB_HCA");
	struct text_list devices = host_list(&check->host, "/sys/class/infiniband");
	bool matches = false;

	for (size_t i = 0; filter && i < devices.count; i++)
		matches |= name_filter_pass(filter, devices.items[i], -1);
	if (filter && !matches && (devices.count || *filter != '^')) {
		found(check, devices.count ? CHECK_WARN : CHECK_NOTE, "hca-none",
		      "NCCL_IB_HCA=%s matches none of %s", filter,
		      devices.count ? text_list_join(&devices, 16)
				    : "the devices of this host (none)");
		found_why(check, "InfiniBand and RoCE are not used");
		found_fix(check, "unset it, or name one of these devices");
	}
}

static void check_notes(struct check *check)
{
	const struct {
		const char *id, *what, *text;
	} notes[] = {
		{ "family-none", "the address family", check->interfaces.notes.family },
		{ "subnet-none", "the subnet", check->interfaces.notes.subnet },
	};

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		if (!*notes[i].text)
			continue;
		found(check, CHECK_WARN, notes[i].id, "%s that is requested: %s", notes[i].what,
		      notes[i].text);
		found_fix(check, "unset it, or give the interface such an address");
	}
}

void check_conflicts(struct check *check)
{
	check_ifname(check, "NCCL_SOCKET_IFNAME");
	check_ifname(check, "ANYNET_SOCKET_IFNAME");
	check_gloo(check, "GLOO_SOCKET_IFNAME");
	check_gloo(check, "TP_SOCKET_IFNAME");
	check_sockets(check);
	check_ib_disabled(check);
	check_limits(check);
	check_hca(check);
	check_notes(check);
}
