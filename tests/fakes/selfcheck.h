/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of a fake. Each runs in a process of its own, which the first failed check of support/check.h ends.
 */
#ifndef TESTS_FAKES_SELFCHECK_H
#define TESTS_FAKES_SELFCHECK_H

struct selfcheck {
	const char *name;
	void (*run)(void);
	/* Interpreted by the rig of each fake; 0 is the usual. */
	const char *description; /* description of the fake */
	int setting;             /* objects that exist when the check begins */
	unsigned misuses;        /* calls that the fake reports */
};

/* A check with the name of its function. */
#define CHECK(function) .name = #function, .run = function

/*
 * Runs the checks of a list, which ends with one without a name, through `run`; only those whose names match the
 * pattern in TEST_FILTER, if it is set. Returns the number of failures.
 */
int selfcheck_run(const struct selfcheck *list, void (*run)(const struct selfcheck *check));

#endif
