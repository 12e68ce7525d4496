/* SPDX-License-Identifier: Apache-2.0 */
#include "hurt.h"
#include "stream.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NAP_EVERY     500 /* average number of iterations without or with progress */
#define OBSERVED_MS   30  /* how long memory is checked after the close */
#define LEVEL_WARN    2
#define COMM_ID       0x1234567890abcdefu
#define SETTING_BYTES 64

static struct {
	struct job_state *state;
	bool print;
} logging;

__attribute__((format(printf, 5, 6))) static void log_line(int level, unsigned long flags,
							   const char *file, int line,
							   const char *fmt, ...)
{
	char text[WARN_BYTES];
	va_list args;

	(void)flags;
	if (level != LEVEL_WARN && !logging.print)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (logging.print)
		fprintf(stderr, "[%d] %.3f %s:%d %s%s\n", (int)getpid(),
			(double)(real_ns() / 1000000u % 10000000u) / 1e3, file, line,
			level == LEVEL_WARN ? "WARN " : "", text);
	if (level != LEVEL_WARN)
		return;
	unsigned number = atomic_fetch_add(&logging.state->warns, 1);
	if (number < WARNS_KEPT)
		memcpy(logging.state->warn[number], text, sizeof(text));
}

static void set(const char *setting)
{
	const char *equals = strchr(setting, '=');
	char name[SETTING_BYTES];

	check_that(equals, "'%s' is not NAME=VALUE", setting);
	snprintf(name, sizeof(name), "%.*s", (int)(equals - setting), setting);
	check_ok(setenv(name, equals + 1, 1));
}

void job_environment(const struct job_plan *plan)
{
	struct rlimit limit;

	unsetenv("NCCL_NET");
	setenv("ANYNET_TRANSPORT", "tcp", 1);
	setenv("NCCL_SOCKET_IFNAME", plan->ifname ? plan->ifname : "=lo", 1);
	setenv("NCCL_DEBUG", plan->print ? "INFO" : "WARN", 1);
	for (size_t i = 0; i < SETTINGS_MAX && plan->settings[i]; i++)
		set(plan->settings[i]);
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* /sys as well, where the plugin looks for interfaces; without it they have default properties. */
static void enter_netns(int fd)
{
	if (fd < 0)
		return;
	check_that(!setns(fd, CLONE_NEWNET), "setns: %s", strerror(errno));
	if (!unshare(CLONE_NEWNS) && !mount("", "/", "none", MS_SLAVE | MS_REC, NULL) &&
	    mount("sysfs", "/sys", "sysfs", 0, NULL))
		fprintf(stderr, "cannot mount this namespace's /sys: %s\n", strerror(errno));
}

struct driver_net *job_load(const struct job_plan *plan, struct job_state *state)
{
	char err[1024];

	logging.state = state;
	logging.print = plan->print;
	struct driver_net *net = driver_open(plan->net, plan->abi, err, sizeof(err));
	check_that(net, "%s", err);
	return net;
}

int job_init(struct driver_net *net, void **ctx)
{
	return driver_init(net, ctx, COMM_ID, -1, log_line, NULL);
}

struct driver_net *job_open(const struct job_plan *plan, struct job_state *state, void **ctx)
{
	struct driver_net *net = job_load(plan, state);
	int count = 0;

	check_ok(job_init(net, ctx));
	check_ok(driver_devices(net, &count));
	check_that(count > 0, "no devices");
	return net;
}

static bool commanded(const struct shared *shared, int side)
{
	return atomic_load_explicit(&shared->command[side], memory_order_acquire) != JOB_RUN;
}

/* Until every stream is connected or has failed; NCCL alternates between both kinds of calls. */
static void connect_all(struct stream *streams, unsigned count, struct shared *shared, int side,
			void *ctx, enum kind kind)
{
	unsigned turns = 0;

	turn_moved();
	for (unsigned left = count; left && !commanded(shared, side); turn_idle()) {
		left = 0;
		for (unsigned i = 0; i < count; i++)
			left += !stream_connect(&streams[i], ctx);
		if (!turns++)
			kind_listening(kind);
	}
}

static void maybe_nap(struct shared *shared, int side, uint64_t *random)
{
	unsigned ms = atomic_load_explicit(&shared->nap_ms[side], memory_order_relaxed);

	if (!ms || random_below(random, NAP_EVERY))
		return;
	uint64_t us = random_below(random, ms * 1000);
	struct timespec pause = { .tv_sec = (time_t)(us / 1000000),
				  .tv_nsec = (long)(us % 1000000) * 1000 };
	nanosleep(&pause, NULL);
}

static void run_all(struct stream *streams, unsigned count, struct shared *shared, int side,
		    uint64_t seed)
{
	while (!commanded(shared, side)) {
		bool held = atomic_load(&shared->hold), moved = false;
		for (unsigned i = 0; i < count; i++)
			moved = stream_turn(&streams[i]) || moved;
		atomic_store(&shared->jobs[side].held, held);
		maybe_nap(shared, side, &seed);
		if (moved)
			turn_moved();
		else
			turn_idle();
	}
}

/* As NCCL ends a communicator, normally or by abort (net-api.md §3.10). */
static void close_all(struct stream *streams, unsigned count)
{
	const struct timespec observed = { .tv_nsec = OBSERVED_MS * 1000000L };

	for (unsigned i = 0; i < count; i++)
		stream_close(&streams[i]);
	nanosleep(&observed, NULL);
}

void job_run(const struct job_plan *plan, struct shared *shared, int side)
{
	static struct stream streams[STREAMS_MAX];
	struct job_state *state = &shared->jobs[side];
	unsigned count = plan_streams(plan);
	void *ctx;

	atomic_store(&state->pid, getpid());
	enter_netns(plan->netns[side]);
	job_environment(plan);
	for (size_t i = 0; i < SETTINGS_MAX && plan->own_settings[side][i]; i++)
		set(plan->own_settings[side][i]);
	kind_begin(plan->kind);
	struct driver_net *net = job_open(plan, state, &ctx);
	for (unsigned i = 0; i < count; i++)
		stream_init(&streams[i], plan, shared, side, i, net);
	hurt_start(shared, side, plan->seed);
	connect_all(streams, count, shared, side, ctx, plan->kind);
	kind_up(plan->kind);
	atomic_store(&state->stage, JOB_UP);
	run_all(streams, count, shared, side, plan->seed + (uint64_t)side);
	close_all(streams, count);
	atomic_store(&state->stage, JOB_CLOSED);
	hurt_stop();
	check_ok(driver_finalize(net, ctx));
	driver_close(net);
	for (unsigned i = 0; i < count; i++)
		stream_free(&streams[i]);
	exit(0);
}
