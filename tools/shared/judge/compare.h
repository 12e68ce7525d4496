/* SPDX-License-Identifier: Apache-2.0 */
/* One text of each host: the value that most have, and who differs. */
#ifndef JUDGE_COMPARE_H
#define JUDGE_COMPARE_H

#include <jansson.h>
#include <stddef.h>

#include "finding.h"

#define HOSTS_MAX 256

/* One text for each host, all of the same kind. */
struct texts {
	const json_t *hosts;       /* with "name" and "facts" (facts.h of tools/pair) */
	const char *of[HOSTS_MAX]; /* NULL = this host has told nothing */
	size_t count;
};

/* Member `key` of each host's `part`: "facts", "env" (of the facts), or another member of the host. */
struct texts texts_of(const json_t *hosts, const char *part, const char *key, const char *missing);

const char *texts_name(const struct texts *t, size_t host);

/* Adds a finding that tells who has what, if they are not all alike. */
void texts_compare(const struct texts *t, const char *what, const struct advice *advice,
		   json_t *findings);

/* Adds one for each text that several hosts have. */
void texts_repeat(const struct texts *t, const char *what, const struct advice *advice,
		  json_t *findings);

#endif
