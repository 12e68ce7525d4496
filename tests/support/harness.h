/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs test cases on a net, each in a process of its own: a plugin stays loaded once it has been
 * (nodelete) and reads its environment once, so only a fresh process is a fresh start.
 *
 *   PROGRAM NET ABI [NAME=VALUE …]
 *
 * NET and ABI are driver_open's; the settings go into the environment of every case. TEST_FILTER in
 * the environment picks cases by name, with * and ?. TEST_FUSE has links opened on a fused device of
 * these, and another one: "0+1"; "0+1>0": they connect from that one to device 0.
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
	int abi; /* of the table in use; before net_open as given, maybe DRIVER_ABI_NEWEST */
	struct driver_net *driver;
	void *ctx;
	int dev, listen_dev;       /* the same, if TEST_FUSE says nothing else */
	struct driver_props props; /* of dev */
};

struct test_case {
	const char *name;
	void (*run)(struct test_net *net);
	bool unopened; /* the case opens the net itself, or forks peers which do */
	const char *settings[TEST_SETTINGS_MAX]; /* NAME=VALUE */
};

int test_main(int argc, char **argv, const struct test_case *cases, size_t count);

/* Open, init with capture_logger and pick device 0; closing also checks what was logged. */
void net_open(struct test_net *net);
void net_open_with(struct test_net *net, int traffic_class, void *profiler);
void net_close(struct test_net *net);

/* One of the built-ins of a libnccl: it shares neither our log nor our handle. */
bool net_is_builtin(const struct test_net *net);

#endif
