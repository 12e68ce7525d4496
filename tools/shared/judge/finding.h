/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found, for people and for programs: lists of objects with "level" ("note", "warning", "error"),
 * "id" (one word for the kind of it), "finding", "why" (it matters) and "fix" (what to do), as in the
 * JSON of all commands.
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

/* Adds "hosts", a list of names that is released, to the finding that was added last. */
void finding_concerns(json_t *list, json_t *hosts);

/* The same findings, errors first; `list` is released. */
json_t *findings_sorted(json_t *list);

/* 0 fine (or notes), 1 warnings, 2 errors: the exit status. */
int findings_status(const json_t *list);

#endif
