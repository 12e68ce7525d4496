/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings, in a form for people and programs: JSON objects with "level" ("note", "warning",
 * "error"), "id" (the kind, one word), "finding", "why" (it matters) and "fix" (what to do). All
 * commands use this form in JSON.
 */
#ifndef JUDGE_FINDING_H
#define JUDGE_FINDING_H

#include <jansson.h>

#define FINDING_MAX 1024 /* bytes of "finding" */

struct advice {
	const char *id, *level, *why, *fix;
};

void judge_add(json_t *list, const struct advice *advice, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds "hosts", a list of names, to the last finding of `list`. Takes over the reference to `hosts`. */
void finding_concerns(json_t *list, json_t *hosts);

/* Returns the same findings, errors first. Releases `list`. */
json_t *findings_sorted(json_t *list);

/* Returns the exit status: 0 = no findings or notes only, 1 = warnings, 2 = errors. */
int findings_status(const json_t *list);

#endif
