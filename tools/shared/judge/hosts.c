/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of hosts; see hosts.h. */
#include "hosts.h"

#include <string.h>

#include <nccl_net/util.h>

#include "compare.h"
#include "tools/shared/address.h"
#include "tools/shared/member.h"
#include "tools/shared/text.h"

/* --- versions and settings --- */

static const struct {
	const char *key, *what;
	struct advice advice;
} versions[] = {
	{ "version",
	  "anynet",
	  { "version", "warning", "One job would use two versions of the plugin.",
	    "Install the same version on all hosts." } },
	{ "nccl",
	  "the NCCL on the library search path",
	  { "version", "warning",
	    "Two versions of NCCL do not work together in one job. The copies inside PyTorch or "
	    "CuPy may still be the same.",
	    "Install one version everywhere, and only one on each host." } },
	{ "gpus",
	  "GPUs",
	  { "device", "warning",
	    "NCCL is as fast as the slowest host, and ranks wait for those that have none.",
	    "If it is not intended: check `nvidia-smi` on the host that differs, and the devices "
	    "of the container." } },
	{ "driver", "NVIDIA's driver", { "version", "note", "", "" } },
	{ "kernel", "the kernel", { "version", "note", "", "" } },
};

static void compare_versions(json_t *findings, const json_t *hosts)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct texts t = texts_of(hosts, "facts", versions[i].key, "");

		texts_compare(&t, versions[i].what, &versions[i].advice, findings);
	}
}

static const char *protocol(const json_t *facts)
{
	return text_format("%lld", member_int(facts, "wire", 0, INT32_MAX, 0));
}

/* Compares the version of the plugins' wire protocol. */
static void compare_protocols(json_t *findings, const json_t *hosts)
{
	struct texts t = texts_made(hosts, protocol);

	texts_compare(&t, "anynet's wire protocol",
		      &(struct advice){ "version", "error", "The plugins cannot communicate.",
					"Install the same version of anynet on all hosts." },
		      findings);
}

/* Settings that name things of one host and may differ. */
static bool is_local_setting(const char *name)
{
	static const char *const parts[] = { "IFNAME", "_HCA",   "DEBUG",     "_FILE",
					     "_LIB",   "HOSTID", "GID_INDEX", "PORT_RANGE" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (strstr(name, parts[i]))
			return true;
	}
	return false;
}

static void compare_settings(json_t *findings, const json_t *hosts)
{
	json_t *all = json_object(), *value;
	const json_t *host;
	const char *name;
	size_t i;

	json_array_foreach (hosts, i, host) {
		json_t *env = json_object_get(json_object_get(host, "facts"), "env");

		if (json_is_object(env))
			json_object_update(all, env);
	}
	json_object_foreach (all, name, value) {
		struct texts t = texts_of(hosts, "env", name, "not set");
		bool local = is_local_setting(name);

		texts_compare(
			&t, name,
			&(struct advice){
				"setting", local ? "note" : "warning",
				local ? ""
				      : "Ranks with different settings may wait for each other forever.",
				local ? ""
				      : "Set it to the same value on all hosts, or unset it "
					"everywhere." },
			findings);
	}
	json_decref(all);
}

/* --- devices --- */

static bool is_loopback(const char *address)
{
	struct sockaddr_storage addr;

	return address_parse(address, 0, &addr) && address_is_loopback(&addr);
}

bool host_is_cut_off(const json_t *facts, const json_t *way)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	size_t i;

	if (!json_array_size(devices))
		return true;
	if (is_loopback(member_text(way, "local")))
		return false;
	json_array_foreach (devices, i, dev) {
		if (!is_loopback(member_text(dev, "address")))
			return false;
	}
	return true;
}

const char *host_fact(const json_t *facts, const char *key, const char *none)
{
	const char *text = member_text(facts, key);

	if (json_is_null(json_object_get(facts, key)))
		return "not known";
	return *text ? text : none;
}

/* "2 x IB 200000 Mb/s, 1 x TCP 10000 Mb/s", in device order. */
static const char *describe_devices(const json_t *facts)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	struct text_list all = { 0 };
	size_t i;

	json_array_foreach (devices, i, dev)
		text_list_add(&all, text_format("%.8s %lld Mb/s", member_text(dev, "transport"),
						member_int(dev, "speed_mbps", 0, INT32_MAX, 0)));
	return text_list_tally(&all);
}

static void compare_devices(json_t *findings, const json_t *hosts)
{
	struct texts t = texts_made(hosts, describe_devices);

	for (size_t i = 0; i < t.count; i++) {
		const json_t *host = json_array_get(hosts, i);

		if (!t.of[i] ||
		    !host_is_cut_off(json_object_get(host, "facts"), json_object_get(host, "way")))
			continue;
		judge_add(findings,
			  &(struct advice){
				  "device", "error", "NCCL cannot reach another host from it.",
				  "Run `anynet devices` on that host: it prints the devices and "
				  "the reasons; check NCCL_SOCKET_IFNAME there." },
			  "%.64s: %s", texts_name(&t, i),
			  *t.of[i] ? "the plugin gets only the loopback interface"
				   : "no usable device");
		finding_concerns(findings, json_pack("[s]", texts_name(&t, i)));
	}
	texts_compare(&t, "devices",
		      &(struct advice){ "device", "warning",
					"NCCL's rings and trees are as fast as the slowest host.",
					"Run `anynet devices` on the host that differs." },
		      findings);
}

void judge_hosts(json_t *findings, const json_t *hosts)
{
	compare_protocols(findings, hosts);
	compare_versions(findings, hosts);
	compare_settings(findings, hosts);
	compare_devices(findings, hosts);
}
