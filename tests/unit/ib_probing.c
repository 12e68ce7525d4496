/* SPDX-License-Identifier: Apache-2.0 */
#include "ib_probing.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "environment.h"

struct anynet_config ib_cfg;
struct anynet_probe ib_probed;

static const char *fake_file;
static void *fake;

bool probing_hold(const char *file)
{
	fake_file = file;
	fake = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!fake)
		fprintf(stderr, "%s\n", dlerror());
	return fake;
}

struct fake_verbs_counts probing_counts(void)
{
	void (*counter)(struct fake_verbs_counts *counts);
	void *address = dlsym(fake, "fake_verbs_counts");
	struct fake_verbs_counts counts;

	assert_non_null(address);
	memcpy(&counter, &address, sizeof(counter));
	counter(&counts);
	return counts;
}

int probing_setup(void **state)
{
	(void)state;
	memset(&ib_probed, 0, sizeof(ib_probed));
	environment_clear();
	anynet_config_load(&ib_cfg, NULL);
	snprintf(ib_cfg.ibverbs_lib, sizeof(ib_cfg.ibverbs_lib), "%s", fake_file);
	return 0;
}

int probing_setup_on_lo(void **state)
{
	probing_setup(state);
	snprintf(ib_cfg.socket_ifname, sizeof(ib_cfg.socket_ifname), "lo"); /* exists on every host */
	return 0;
}

void probing_run(const char *script)
{
	struct fake_verbs_counts left;

	setenv("FAKE_VERBS", script, 1);
	memset(&ib_probed, 0, sizeof(ib_probed));
	anynet_ib_probe(&ib_cfg, &ib_probed);
	left = probing_counts();
	assert_int_equal(left.contexts + left.lists + left.pds + left.mrs + left.cqs + left.qps, 0);
}

void probing_says(const struct anynet_candidate *verdict, const char *part)
{
	if (!strstr(verdict->reason, part))
		fail_msg("'%s' is not in '%s'", part, verdict->reason);
}
