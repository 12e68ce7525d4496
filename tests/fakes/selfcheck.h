/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of a fake. Each has a process of its own, which the first check of support/check.h that does
 * not hold ends.
 */
#ifndef TESTS_FAKES_SELFCHECK_H
#define TESTS_FAKES_SELFCHECK_H

struct selfcheck {
	const char *name;
	void (*run)(void);
	/* What the rig of a fake makes of these is its own business; 0 is the usual. */
	const char *description; /* what the fake is to be like */
	int setting;             /* what is open, or connected, when the check begins */
	unsigned misuses;        /* calls that the fake complains of */
};

/* A check that is called like its function. */
#define CHECK(function) .name = #function, .run = function

/*
 * Runs the checks of a list, which ends with one that has no name, by way of `run`; those only whose names
 * fit the pattern in TEST_FILTER, if that is set. How many have failed.
 */
int selfcheck_run(const struct selfcheck *list, void (*run)(const struct selfcheck *check));

#endif
