/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_rules.h"

#include <string.h>
#include <strings.h>

const struct nccl_release nccl_releases[] = {
	{ "2.12.12", 5, 5, .case_matters = true, .filters_before_init = true },
	{ "2.18.6", 6, 5, .rereads_name = true },
	{ "2.19.4", 7, 5, .rereads_name = true },
	{ "2.23.4", 8, 5, .rereads_name = true },
	{ "2.25.1", 9, 5, .rereads_name = true },
	{ "2.27.7", 10, 6, .rereads_name = false },
	{ "2.28.3", 11, 6, .rereads_name = false },
	{ "2.28.9", 11, 6, .filters_before_init = true },
	{ "2.30.7", 12, 6, .filters_before_init = true },
};
const size_t nccl_release_count = sizeof(nccl_releases) / sizeof(nccl_releases[0]);

static bool passes(const struct nccl_release *release, const char *filter, const char *name)
{
	if (!filter)
		return true;
	return !(release->case_matters ? strcmp(filter, name) : strcasecmp(filter, name));
}

static struct driver_net *load(const struct nccl_release *release, const char *spec)
{
	char err[512];

	for (int abi = release->abi_newest; abi >= release->abi_oldest; abi--) {
		struct driver_net *driver = driver_open(spec, abi, err, sizeof(err));
		if (driver)
			return driver;
	}
	return NULL;
}

/* A native table's name is read when it is needed; a shim has kept the pointer. */
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
	if (release->rereads_name)
		kept = driver_name(choice->driver);
	choice->name = current_name(release, choice->driver, kept);
	if (!passes(release, filter, choice->name))
		choice->refused = "name, after init";
}
