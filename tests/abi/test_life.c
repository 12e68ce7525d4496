/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin through many restarts of NCCL (net-api.md §1.8, §2.7): unloads and reloads, and communicators that
 * start and end in any order. The conformance suite has the simpler cases. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <support/capture.h>
#include <support/flow.h>
#include <support/harness.h>
#include <support/link.h>
#include <support/proc.h>

#define CYCLES        40
#define COMMUNICATORS 6
#define BYTES         100000

static bool is_mapped(const char *path)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4200];
	bool found = false;

	check(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, path);
	fclose(maps);
	return found;
}

/* Bytes across an open link, both ends in this thread. */
static void exchange(struct test_net *net, struct link *link, uint64_t seed)
{
	char *from = malloc(BYTES), *to = malloc(BYTES);

	check(from && to);
	for (size_t i = 0; i < BYTES; i++)
		from[i] = (char)(seed + i + (i >> 8));
	memset(to, 0, BYTES);
	check_int(link_exchange(net, link, from, BYTES, to, BYTES), BYTES);
	check(!memcmp(from, to, BYTES));
	free(from);
	free(to);
}

static void connect_and_exchange(struct test_net *net, uint64_t seed)
{
	struct link link;

	link_open(net, &link);
	exchange(net, &link, seed);
	link_close(net, &link);
}

static void test_unload_and_reload(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "files to be closed");
	const char *name = NULL;
	char path[4096] = "";
	size_t files = 0;

	for (int i = 0; i < CYCLES; i++) {
		net_open(net);
		if (i == 0) {
			name = driver_name(net->driver);
			snprintf(path, sizeof(path), "%s", driver_path(net->driver));
		}
		check(driver_name(net->driver) == name); /* the constructor ran once */
		if (i % 10 == 0)
			connect_and_exchange(net, (uint64_t)i);
		net_close(net);
		check(is_mapped(path));
		if (i == 0)
			files = proc_fds(NULL, 0);
	}
	/* A closed connection exists until the peer's kernel has received everything. */
	while (proc_fds(NULL, 0) > files)
		deadline_turn(&deadline);
}

/* NCCL 2.28.3 - 2.29.7 forget the plugin's name at the unload, and ask for the default name (net-api.md §2.7). The
 * library stays loaded and that name is its soname, so they find it in any directory. */
static void test_reload_under_the_default_name(struct test_net *net)
{
	char path[4096];
	void *again;

	net_open(net);
	snprintf(path, sizeof(path), "%s", driver_path(net->driver));
	net_close(net);
	unsetenv("LD_LIBRARY_PATH");
	again = dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	check_that(again, "libnccl-net.so is not known any more");
	dlclose(again);
	net->spec = "libnccl-net.so";
	net_open(net);
	check_that(!strcmp(driver_path(net->driver), path), "found %s", driver_path(net->driver));
	connect_and_exchange(net, 1);
	net_close(net);
}

static void test_finalize_in_any_order(struct test_net *net)
{
	static const int orders[][COMMUNICATORS] = { { 0, 1, 2, 3, 4, 5 },
						     { 5, 4, 3, 2, 1, 0 },
						     { 2, 0, 4, 1, 5, 3 } };
	void *ctx[COMMUNICATORS];

	net_open(net);
	for (size_t round = 0; round < sizeof(orders) / sizeof(orders[0]); round++) {
		struct test_net other = *net;
		struct link link;

		for (int i = 0; i < COMMUNICATORS; i++)
			check_ok(driver_init(net->driver, &ctx[i], 7 + (uint64_t)i, -1,
					     capture_logger, NULL));
		other.ctx = ctx[orders[round][COMMUNICATORS - 1]]; /* the last one to end */
		link_open(&other, &link);
		for (int i = 0; i < COMMUNICATORS - 1; i++) {
			check_ok(driver_finalize(net->driver, ctx[orders[round][i]]));
			exchange(&other, &link, round);
		}
		link_close(&other, &link);
		check_ok(driver_finalize(net->driver, other.ctx));
	}
	connect_and_exchange(net, 1);
	net_close(net);
	net_open(net); /* everything is closed; again */
	connect_and_exchange(net, 2);
	net_close(net);
}

static void *communicator(void *arg)
{
	struct test_net net = *(struct test_net *)arg;

	for (int i = 0; i < 5; i++) {
		check_ok(driver_init(net.driver, &net.ctx, 99, -1, capture_logger, NULL));
		connect_and_exchange(&net, (uint64_t)i);
		check_ok(driver_finalize(net.driver, net.ctx));
	}
	return NULL;
}

static void test_communicators_in_threads(struct test_net *net)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		check_ok(pthread_create(&threads[i], NULL, communicator, net));
	for (int i = 0; i < 4; i++)
		check_ok(pthread_join(threads[i], NULL));
}

/* The library of one of two NCCLs. No call says that its logger is not to be used any more. */
static void test_the_logger_of_a_library_that_is_unloaded(struct test_net *net)
{
	const char *path = getenv("TEST_LOGGER");
	struct driver_props props;
	const unsigned *logged;
	driver_logger logger;
	void *lib, *symbol, *ctx;

	net_open(net);
	check(path);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	check_that(lib, "%s", dlerror());
	symbol = dlsym(lib, "logger");
	logged = dlsym(lib, "logged");
	check(symbol && logged);
	memcpy(&logger, &symbol, sizeof(logger));
	check_ok(driver_init(net->driver, &ctx, 8, -1, logger, NULL));
	check_ok(driver_finalize(net->driver, ctx));
	check(!dlclose(lib));
	check_that(is_mapped(path), "the logger is not there any more");
	unsigned before = *logged;
	check(driver_properties(net->driver, 1000, &props));
	check(*logged > before);
	net_close(net);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "unload and reload", test_unload_and_reload, .unopened = true },
		{ "reload under the default name", test_reload_under_the_default_name,
		  .unopened = true },
		{ "finalize in any order", test_finalize_in_any_order, .unopened = true },
		{ "the logger of a library that is unloaded",
		  test_the_logger_of_a_library_that_is_unloaded, .unopened = true },
		{ .name = "communicators in threads", .run = test_communicators_in_threads },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
