/* SPDX-License-Identifier: Apache-2.0 */
/* Compares one text value across hosts: the most common value, and the hosts that differ. */
#ifndef JUDGE_COMPARE_H
#define JUDGE_COMPARE_H

#include <jansson.h>
#include <stddef.h>

#include "finding.h"

#define HOSTS_MAX 256

/* One text value of each host. */
struct texts {
	const json_t *hosts;       /* objects with "name" and "facts" (facts.h of tools/pair) */
	const char *of[HOSTS_MAX]; /* NULL = the host reported no facts */
	size_t count;
};

/* Collects member `key` of each host's `part`: "facts", "env" (inside the facts), or another member
 * of the host. `missing` stands for a value that a host did not report. */
struct texts texts_of(const json_t *hosts, const char *part, const char *key, const char *missing);

/* Makes each host's value from its facts. */
struct texts texts_made(const json_t *hosts, const char *(*make)(const json_t *facts));

const char *texts_name(const struct texts *t, size_t host);

/* If the hosts differ, adds one finding that lists each value with its hosts. */
void texts_compare(const struct texts *t, const char *what, const struct advice *advice,
		   json_t *findings);

/* Adds one finding for each value that several hosts share. */
void texts_repeat(const struct texts *t, const char *what, const struct advice *advice,
		  json_t *findings);

#endif
