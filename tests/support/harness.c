/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"
#include "capture.h"
#include "fake.h"
#include "memory.h"
#include "peer.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CASES_MAX 64
#define CASE_MS   (4 * TEST_PATIENCE_MS) /* time within which a case has to end by itself */

static struct {
	const char *spec;
	int abi;
	char **settings;
	size_t setting_count;
	size_t skipped_count;
	size_t run_count;
} program;

static void set(const char *setting)
{
	const char *equals = strchr(setting, '=');
	char name[64];

	check_that(equals, "'%s' is not NAME=VALUE", setting);
	snprintf(name, sizeof(name), "%.*s", (int)(equals - setting), setting);
	check_ok(setenv(name, equals + 1, 1));
}

/* Loopback only, whatever this host has; the test must not depend on the caller's shell. */
static void set_environment(const struct test_case *test)
{
	unsetenv("NCCL_NET");
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("ANYNET_TRANSPORT", "tcp", 1);
	if (strncmp(program.spec, "nccl:", 5))
		setenv("NCCL_DEBUG", "INFO", 1);
	for (size_t i = 0; i < program.setting_count; i++)
		set(program.settings[i]);
	for (size_t i = 0; i < TEST_SETTINGS_MAX && test->settings[i]; i++)
		set(test->settings[i]);
}

/* Hundreds of comms need file descriptors. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

bool net_is_builtin(const struct test_net *net)
{
	return !strncmp(net->spec, "nccl:", 5);
}

/* "1", or "0+1": the devices to fuse. */
static int device_of(struct test_net *net, const char *text)
{
	int indices[8], count = 0, dev;
	char *end;

	do {
		check_that(count < 8, "TEST_FUSE: too many devices in %s", text);
		indices[count++] = (int)strtol(text, &end, 10);
		check_that(end > text, "TEST_FUSE: '%s' is no device", text);
		text = end + 1;
	} while (*end == '+');
	if (count == 1)
		return indices[0];
	check_ok(driver_make_vdevice(net->driver, &dev, count, indices));
	return dev;
}

static void choose_devices(struct test_net *net)
{
	const char *text = getenv("TEST_FUSE");
	const char *other = text ? strchr(text, '>') : NULL;

	net->dev = text ? device_of(net, text) : 0;
	net->listen_dev = other ? device_of(net, other + 1) : net->dev;
}

void net_open_with(struct test_net *net, int traffic_class, void *profiler)
{
	char err[1024];
	int count = 0;

	net->driver = driver_open(net->spec, net->abi, err, sizeof(err));
	if (!net->driver && net_is_builtin(net))
		check_skip("%s", err);
	check_that(net->driver, "%s", err);
	net->abi = driver_abi(net->driver);
	check_ok(driver_init(net->driver, &net->ctx, 0x1234567890abcdefu, traffic_class,
			     capture_logger, profiler));
	check_ok(driver_devices(net->driver, &count));
	check_that(count > 0, "no devices");
	choose_devices(net);
	check_ok(driver_properties(net->driver, net->dev, &net->props));
	memory_net_opened(net);
}

void net_open(struct test_net *net)
{
	net_open_with(net, -1, NULL);
}

void net_close(struct test_net *net)
{
	check_ok(driver_finalize(net->driver, net->ctx));
	fake_check_memory();
	memory_net_closed();
	driver_close(net->driver);
	net->driver = NULL;
	capture_check();
}

/* cmocka would continue with the next case after a crash; the parent handles it. */
static const int crashes[] = { SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS };
#define CRASHES (sizeof(crashes) / sizeof(crashes[0]))
static struct sigaction before_cmocka[CRASHES];

static void remember_handlers(void)
{
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], NULL, &before_cmocka[i]);
}

static void restore_handlers(void)
{
	for (size_t i = 0; i < CRASHES; i++)
		sigaction(crashes[i], &before_cmocka[i], NULL);
}

_Noreturn static void run_case(const struct test_case *test)
{
	struct test_net net = { .spec = program.spec, .abi = program.abi };

	restore_handlers();
	check_set_report(capture_print);
	set_environment(test);
	if (test->unopened) {
		test->run(&net);
	} else {
		net_open(&net);
		test->run(&net);
		net_close(&net);
	}
	if (net_is_builtin(&net)) /* leaks of NCCL are not the subject */
		_exit(0);
	exit(0);
}

static pid_t fork_case(const struct test_case *test)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0); /* so that its peers can be killed with it */
	run_case(test);
}

/* The case, as a cmocka test. */
static void watch_case(void **state)
{
	const struct test_case *test = *state;
	int status = 0;

	program.run_count++;
	pid_t pid = fork_case(test);
	if (pid < 0)
		fail_msg("fork: %s", strerror(errno));
	bool ended = peer_reap(pid, CASE_MS, &status);
	if (!ended) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		fail_msg("%s: no end in sight after %d ms", test->name, CASE_MS * TEST_TIME_SCALE);
	}
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status))
		fail_msg("%s: signal %d (%s)", test->name, WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == TEST_SKIPPED) {
		program.skipped_count++;
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int test_main(int argc, char **argv, const struct test_case *cases, size_t count)
{
	struct CMUnitTest tests[CASES_MAX];

	if (argc < 3 || count > CASES_MAX) {
		fprintf(stderr, "usage: %s NET ABI [NAME=VALUE ...]\n", argv[0]);
		return 2;
	}
	program.spec = argv[1];
	program.abi = atoi(argv[2]);
	program.settings = argv + 3;
	program.setting_count = (size_t)argc - 3;
	raise_limits();
	remember_handlers();
	for (size_t i = 0; i < count; i++) {
		struct test_case *state = (void *)(uintptr_t)&cases[i];
		tests[i] = (struct CMUnitTest){ cases[i].name, watch_case, NULL, NULL, state };
	}
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	int failures = _cmocka_run_group_tests(argv[0], tests, count, NULL, NULL);
	check_that(program.run_count, "no case is named as TEST_FILTER says");
	return !failures && program.skipped_count == count ? TEST_SKIPPED : failures;
}
