/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and deadlines for tests with threads and processes of their own, in which cmocka's asserts cannot be used: a
 * failed check prints the reason on stderr and ends the process with TEST_FAILED.
 */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define TEST_FAILED  1
#define TEST_SKIPPED 77

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/* Time limits detect hangs, not slowness: sanitizers get several times more. */
#define TEST_TIME_SCALE (TEST_SANITIZED ? 3 : 1)

/* Long enough for everything that happens at all, on a machine with twenty times more load than processors; shorter
 * than the plugin's time-outs of 30 s, which must not be what makes it happen. */
#define TEST_PATIENCE_MS 25000

_Noreturn void check_failed(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Printed as well when a check fails. */
void check_set_report(void (*report)(void));

/* Ends the process: the test cannot run on this host. */
_Noreturn void check_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define check(condition) check_that(condition, "%s", #condition)

#define check_that(condition, ...)                                     \
	do {                                                           \
		if (!(condition))                                      \
			check_failed(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

#define check_int(got, wanted)                                                            \
	do {                                                                              \
		long long got_ = (long long)(got), wanted_ = (long long)(wanted);         \
		check_that(got_ == wanted_, "%s is %lld, not %lld", #got, got_, wanted_); \
	} while (0)

/* An NCCL call that has to succeed. */
#define check_ok(call)                                                      \
	do {                                                                \
		int result_ = (call);                                       \
		check_that(result_ == 0, "%s returned %d", #call, result_); \
	} while (0)

struct deadline {
	uint64_t at_ns;
	const char *what; /* what is waited for */
};

uint64_t clock_ns(void);

/* `ms` is scaled for sanitizers. A minute without a call counts as one second. */
struct deadline deadline_in(int ms, const char *what);
bool deadline_passed(const struct deadline *deadline);
int deadline_left_ms(const struct deadline *deadline); /* time-out for poll in a loop: 0 to 500 */

/* Yields sometimes. (Not at each call: on a loaded machine a yield lasts until all others have run.) */
void yield_at_times(void);

/* For loops that poll, as NCCL's progress thread does. After some time without progress each idle iteration ends with
 * a sleep of a tenth of that time, which leaves the processors to other tests. */
void turn_moved(void);
void turn_idle(void);

/* One iteration of a polling loop: fails if the deadline has passed, else an idle iteration of a wait that began when
 * the deadline was set. */
void deadline_turn(const struct deadline *deadline);

#endif
