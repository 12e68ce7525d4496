/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs test cases on a net, each in its own process: a loaded plugin is never unloaded (nodelete) and reads its
 * environment once, so only a new process is a fresh start.    PROGRAM NET ABI [NAME=VALUE …]  NET and ABI are those of
 * driver_open; the settings are put into the environment of every case. TEST_FILTER in the environment selects cases by
 * name, with * and ?. With TEST_FUSE links use a fused device: "0+1"; or "0+1>0": they connect from that one to device
 * 0.
 */
#ifndef TESTS_SUPPORT_HARNESS_H
#define TESTS_SUPPORT_HARNESS_H

#include "check.h"

#include <driver.h>
#include <stdbool.h>
#include <stddef.h>

#define TEST_SETTINGS_MAX 4

/* A net under test. */
struct test_net {
	const char *spec;
	int abi; /* version of the table in use; before net_open the requested one, maybe DRIVER_ABI_NEWEST */
	struct driver_net *driver;
	void *ctx;
	int dev, listen_dev;       /* the same, unless TEST_FUSE says otherwise */
	struct driver_props props; /* of dev */
};

struct test_case {
	const char *name;
	void (*run)(struct test_net *net);
	bool unopened; /* the case opens the net itself, or forks peers that do */
	const char *settings[TEST_SETTINGS_MAX]; /* NAME=VALUE */
};

int test_main(int argc, char **argv, const struct test_case *cases, size_t count);

/* Opens it, calls init with capture_logger and selects device 0; net_close also checks the log. */
void net_open(struct test_net *net);
void net_open_with(struct test_net *net, int traffic_class, void *profiler);
void net_close(struct test_net *net);

/* A built-in net of a libnccl: it has neither the plugin's log nor its handle. */
bool net_is_builtin(const struct test_net *net);

#endif
