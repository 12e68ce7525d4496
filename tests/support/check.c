/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define YIELD_NS 1000000u
#define SPIN_NS  1000000u
#define REST_NS  1000000u /* at most */
#define PAUSE_NS 1000000000u
#define POLL_MS  500 /* so that a wait for an event is not counted as a standstill */

static void (*also_report)(void);

/* One write per line: several processes of a test print at once. */
static void say(const char *text)
{
	fflush(stdout);
	fprintf(stderr, "%s\n", text);
	fflush(stderr);
}

void check_failed(const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	int used = snprintf(text, sizeof(text), "%s:%d: process %d: ", file, line, (int)getpid());
	va_start(args, fmt);
	vsnprintf(text + used, sizeof(text) - (size_t)used, fmt, args);
	va_end(args);
	say(text);
	if (also_report)
		also_report();
	_exit(TEST_FAILED);
}

void check_set_report(void (*report)(void))
{
	also_report = report;
}

void check_skip(const char *fmt, ...)
{
	char text[512] = "SKIP: ";
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + 6, sizeof(text) - 6, fmt, args);
	va_end(args);
	say(text);
	_exit(TEST_SKIPPED);
}

uint64_t clock_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A clock that advances by PAUSE_NS at most between two calls. A virtual machine may stand still for a minute;
 * os_now_ms, which the plugin's own time-outs use, counts that as a second, too. */
static uint64_t patience_ns(void)
{
	static _Thread_local uint64_t last_ns, skipped_ns;
	uint64_t now_ns = clock_ns();

	if (last_ns && now_ns - last_ns > PAUSE_NS)
		skipped_ns += now_ns - last_ns - PAUSE_NS;
	last_ns = now_ns;
	return now_ns - skipped_ns;
}

struct deadline deadline_in(int ms, const char *what)
{
	turn_moved();
	return (struct deadline){ patience_ns() + (uint64_t)ms * 1000000u * TEST_TIME_SCALE, what };
}

bool deadline_passed(const struct deadline *deadline)
{
	return patience_ns() >= deadline->at_ns;
}

int deadline_left_ms(const struct deadline *deadline)
{
	uint64_t now_ns = patience_ns();
	uint64_t left_ms = now_ns < deadline->at_ns ? (deadline->at_ns - now_ns) / 1000000u + 1 : 0;

	return left_ms < POLL_MS ? (int)left_ms : POLL_MS;
}

void yield_at_times(void)
{
	static _Thread_local uint64_t yielded_ns;

	if (clock_ns() - yielded_ns < YIELD_NS)
		return;
	sched_yield();
	yielded_ns = clock_ns();
}

static _Thread_local uint64_t idle_since_ns; /* 0 = something has moved since the last turn */

void turn_moved(void)
{
	idle_since_ns = 0;
}

void turn_idle(void)
{
	uint64_t now_ns = clock_ns(), idle_ns;
	struct timespec rest = { 0 };

	if (!idle_since_ns)
		idle_since_ns = now_ns;
	idle_ns = now_ns - idle_since_ns;
	if (idle_ns < SPIN_NS) {
		yield_at_times();
		return;
	}
	rest.tv_nsec = (long)(idle_ns / 10 < REST_NS ? idle_ns / 10 : REST_NS);
	nanosleep(&rest, NULL);
}

void deadline_turn(const struct deadline *deadline)
{
	check_that(!deadline_passed(deadline), "waited in vain for %s", deadline->what);
	turn_idle();
}
