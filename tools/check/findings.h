/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings of `anynet check`: areas add them to a report, which is printed as text or JSON.
 * Texts may come from the environment or from files. They are made printable when added, so that
 * the output is always valid UTF-8 without control characters. Single-threaded.
 */
#ifndef CHECK_FINDINGS_H
#define CHECK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

#include <nccl_net/util.h>

enum check_verdict {
	CHECK_OK,    /* checked, no problem */
	CHECK_NOTE,  /* information; no action needed */
	CHECK_WARN,  /* works, but not as intended, or will fail elsewhere */
	CHECK_ERROR, /* a job fails */
	CHECK_VERDICTS, /* number of verdicts */
};

struct check_finding {
	enum check_verdict verdict;
	const char *area;  /* "plugin", "settings", … */
	const char *id;    /* name of the check for scripts: "net-empty" */
	const char *found; /* one sentence without a full stop */
	const char *why;   /* why it matters; NULL = obvious */
	const char *fix;   /* what to do; NULL = nothing */
};

struct check_report {
	struct check_finding *findings; /* in the order of `found` */
	size_t count;
	const char *area; /* that is being checked */
};

struct check;

/* Adds a finding for the area that is being checked. */
void found(struct check *check, enum check_verdict verdict, const char *id, const char *fmt, ...)
	ANYNET_PRINTF(4, 5);

/* Set why the newest finding matters, and how to fix it. */
void found_why(struct check *check, const char *fmt, ...) ANYNET_PRINTF(2, 3);
void found_fix(struct check *check, const char *fmt, ...) ANYNET_PRINTF(2, 3);

/* Returns the worst verdict; CHECK_OK if there are no findings. */
enum check_verdict findings_worst(const struct check_report *report);
/* Returns the exit status of the worst verdict. */
int findings_exit_status(const struct check_report *report);
bool findings_have(const struct check_report *report, const char *id);
size_t findings_count(const struct check_report *report, enum check_verdict verdict);

/* Removes all findings below `least`. */
void findings_keep(struct check_report *report, enum check_verdict least);

/* "ok", "note", "warning", "error" */
const char *verdict_name(enum check_verdict verdict);

/* Prints problems first, each with reason and fix, then the other findings by area, then a summary. In `width` columns;
 * 0 = lines are not wrapped. */
void findings_print_text(const struct check_report *report, int width, bool colour, FILE *out);
/* [ { area, id, level, finding, why, fix } ] */
json_t *findings_json(const struct check_report *report);
void findings_print_json(const struct check_report *report, FILE *out);

#endif
