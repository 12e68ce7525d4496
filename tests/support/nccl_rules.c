/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_rules.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ABI_OLDEST 5

/* From 2.12 on; older releases know none of the exported tables. */
static const int codes[] = { 21212, 21806, 21904, 22304, 22501, 22707, 22803, 22809, 23007 };

bool nccl_release(size_t index, struct nccl_release *release)
{
	const struct release_range *range;
	int code;

	if (index >= sizeof(codes) / sizeof(codes[0]))
		return false;
	code = codes[index];
	range = release_range_of(code);
	*release = (struct nccl_release){
		.range = range,
		.abi_newest = range->api_newest,
		.abi_oldest = range->api_oldest > ABI_OLDEST ? range->api_oldest : ABI_OLDEST,
		.filters_before_init = range->filter_first_from && code >= range->filter_first_from,
	};
	snprintf(release->version, sizeof(release->version), "%d.%d.%d", code / 10000,
		 code / 100 % 100, code % 100);
	return true;
}

static bool passes(const struct nccl_release *release, const char *filter, const char *name)
{
	if (!filter)
		return true;
	return !(release->range->filter == FILTER_EXACT ? strcmp(filter, name)
							: strcasecmp(filter, name));
}

static struct driver_net *load(const struct nccl_release *release, const char *spec)
{
	char err[512];

	for (int abi = release->abi_newest; abi >= release->abi_oldest; abi--) {
		if (release->only_abi && abi != release->only_abi)
			continue;
		struct driver_net *driver = driver_open(spec, abi, err, sizeof(err));
		if (driver)
			return driver;
	}
	return NULL;
}

/* The name of a native table is read when it is needed; a shim keeps the pointer. */
static const char *current_name(const struct nccl_release *release, struct driver_net *driver,
				const char *kept)
{
	return driver_abi(driver) == release->abi_newest ? driver_name(driver) : kept;
}

void nccl_choose(const struct nccl_release *release, const char *spec, const char *filter,
		 driver_logger logger, struct nccl_choice *choice)
{
	*choice = (struct nccl_choice){ .driver = load(release, spec) };
	if (!choice->driver) {
		choice->refused = "no table";
		return;
	}
	const char *kept = driver_name(choice->driver);
	choice->name = kept;
	if (release->filters_before_init && !passes(release, filter, choice->name)) {
		choice->refused = "name, before init";
		return;
	}
	if (driver_init(choice->driver, &choice->ctx, 1, -1, logger, NULL)) {
		choice->refused = "init failed";
		return;
	}
	if (driver_devices(choice->driver, &choice->device_count) || choice->device_count <= 0) {
		choice->refused = "no devices";
		return;
	}
	if (release->range->rereads_name)
		kept = driver_name(choice->driver);
	choice->name = current_name(release, choice->driver, kept);
	if (!passes(release, filter, choice->name))
		choice->refused = "name, after init";
}
