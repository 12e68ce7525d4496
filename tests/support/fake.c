/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include "check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *fake_open(void)
{
	const char *file = getenv("ANYNET_IBVERBS_LIB");

	return dlopen(file ? file : "", RTLD_NOW | RTLD_NOLOAD);
}

static void *fake_symbol(const char *name)
{
	void *fake = fake_open(), *symbol;

	check_that(fake, "ANYNET_IBVERBS_LIB is not loaded");
	symbol = dlsym(fake, name);
	check_that(symbol, "%s", name);
	dlclose(fake);
	return symbol;
}

void fake_order(const char *script)
{
	int (*run)(const char *text);
	void *symbol = fake_symbol("fake_verbs_script");

	memcpy(&run, &symbol, sizeof(run));
	check_int(run(script), 0);
}

struct fake_verbs_counts fake_counts(void)
{
	void (*ask)(struct fake_verbs_counts * counts);
	void *symbol = fake_symbol("fake_verbs_counts");
	struct fake_verbs_counts now;

	memcpy(&ask, &symbol, sizeof(ask));
	ask(&now);
	return now;
}

void fake_check_memory(void)
{
	void *fake = getenv("ANYNET_IBVERBS_LIB") ? fake_open() : NULL;

	if (!fake)
		return;
	if (dlsym(fake, "fake_verbs_counts")) {
		check_int(fake_counts().ragged, 0);
		check_int(fake_counts().orphans, 0);
	}
	dlclose(fake);
}
