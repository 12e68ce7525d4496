/* SPDX-License-Identifier: Apache-2.0 */
/* What two hosts say of themselves, compared; see verdict.h. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "finding.h"
#include "verdict.h"
#include "wire.h"

/* --- versions and settings --- */

const struct verdict_version verdict_versions[] = {
	{ "version", "version", "anynet", "warning", "One job would use two versions of the "
						     "plugin.",
	  "Install the same version on both hosts." },
	{ "nccl", "version", "the NCCL that the loader finds", "warning",
	  "Two versions of NCCL do not work together in one job. The copies inside PyTorch or "
	  "CuPy may still be the same.",
	  "Install one version everywhere, and only one on each host." },
	{ "gpus", "device", "GPUs", "warning",
	  "NCCL is as fast as the slowest host, and ranks wait for those that have none.",
	  "If it is not intended: check `nvidia-smi` on the host that differs, and the devices "
	  "of the container." },
	{ "driver", "version", "NVIDIA's driver", "note", "", "" },
	{ "kernel", "version", "the kernel", "note", "", "" },
};
const size_t verdict_version_count = ARRAY_SIZE(verdict_versions);

static void versions(json_t *list, const json_t *local, const json_t *remote)
{
	if (pair_int(local, "wire", 0, INT32_MAX, 0) != pair_int(remote, "wire", 0, INT32_MAX, 0))
		pair_finding_add(list, "version", "error",
				 "The two plugins cannot communicate.",
				 "Install the same version of anynet on both hosts.",
				 "anynet's wire protocol: %lld local, %lld remote",
				 pair_int(local, "wire", 0, INT32_MAX, 0),
				 pair_int(remote, "wire", 0, INT32_MAX, 0));
	for (size_t i = 0; i < verdict_version_count; i++) {
		const struct verdict_version *row = &verdict_versions[i];
		const char *here = pair_text(local, row->key);
		const char *there = pair_text(remote, row->key);

		if (strcmp(here, there) != 0)
			pair_finding_add(list, row->kind, row->level, row->means, row->todo,
					 "%s: %.100s local, %.100s remote", row->what,
					 *here ? here : "none", *there ? there : "none");
	}
}

/* Those that name a host's own things. */
bool verdict_is_local_setting(const char *name)
{
	static const char *const parts[] = { "IFNAME", "_HCA",   "DEBUG",     "_FILE",
					     "_LIB",   "HOSTID", "GID_INDEX", "PORT_RANGE" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (strstr(name, parts[i]))
			return true;
	}
	return false;
}

static void setting(json_t *list, const char *name, const json_t *here, const json_t *there)
{
	const char *a = json_string_value(here), *b = json_string_value(there);

	if (a && b && !strcmp(a, b))
		return;
	pair_finding_add(list, "setting", verdict_is_local_setting(name) ? "note" : "warning",
			 verdict_is_local_setting(name) ? "" : VERDICT_SETTING_MEANS,
			 verdict_is_local_setting(name) ? ""
							: "Set it to the same value on both "
							  "hosts, or unset it.",
			 "%.128s: %s%.200s%s local, %s%.200s%s remote", name, a ? "'" : "",
			 a ? a : "not set", a ? "'" : "", b ? "'" : "", b ? b : "not set",
			 b ? "'" : "");
}

static void settings(json_t *list, const json_t *local, const json_t *remote)
{
	json_t *here = json_object_get(local, "env"), *there = json_object_get(remote, "env");
	const char *name;
	json_t *value;

	json_object_foreach(here, name, value)
		setting(list, name, value, json_object_get(there, name));
	json_object_foreach(there, name, value)
	{
		if (!json_object_get(here, name))
			setting(list, name, NULL, value);
	}
}

static int count_devices(const json_t *facts, const char *transport)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	size_t i;
	int count = 0;

	json_array_foreach(devices, i, dev) count +=
		!*transport || !strcmp(pair_text(dev, "transport"), transport);
	return count;
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

bool verdict_is_cut_off(const json_t *facts, const json_t *way)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	size_t i;

	if (!json_array_size(devices))
		return true;
	if (is_loopback(pair_text(way, "local")))
		return false;
	json_array_foreach(devices, i, dev)
	{
		if (!is_loopback(pair_text(dev, "address")))
			return false;
	}
	return true;
}

static void loopback(json_t *list, const json_t *facts, const json_t *way, const char *where)
{
	if (json_array_size(json_object_get(facts, "devices")) && verdict_is_cut_off(facts, way))
		pair_finding_add(
			list, "loopback", "error", "It cannot reach another host.",
			"Check NCCL_SOCKET_IFNAME on that host, and whether its interface is up; "
			"`anynet devices` prints the reasons.",
			"the plugin gets only the loopback interface on the %s host", where);
}

static void devices(json_t *list, const json_t *local, const json_t *remote)
{
	int here = count_devices(local, "IB"), there = count_devices(remote, "IB");

	if (!count_devices(local, "") || !count_devices(remote, ""))
		pair_finding_add(
			list, "device", "error", "NCCL gets no network there.",
			"Run `anynet devices` on that host: it prints the reasons.",
			"no usable device on the %s host", count_devices(local, "") ? "remote" : "local");
	if (!here != !there)
		pair_finding_add(list, "device", "warning",
				 "This pair uses TCP, which is slower.",
				 "Run `anynet devices` on the host without, or accept TCP.",
				 "InfiniBand or RoCE only on the %s host", here ? "local" : "remote");
}

void verdict_hosts(json_t *list, const json_t *result)
{
	const json_t *local = json_object_get(result, "local");
	const json_t *remote = json_object_get(result, "remote");
	const json_t *both = json_object_get(result, "way");

	versions(list, local, remote);
	settings(list, local, remote);
	devices(list, local, remote);
	loopback(list, local, json_object_get(both, "local"), "local");
	loopback(list, remote, json_object_get(both, "remote"), "remote");
}
