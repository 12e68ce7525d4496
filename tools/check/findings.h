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

#include <nccl_net/util.h>

#include "tools/shared/terminal.h"

enum check_verdict {
	CHECK_OK,    /* checked, no problem */
	CHECK_NOTE,  /* information; no action needed */
	CHECK_WARN,  /* works, but not as intended, or will fail elsewhere */
	CHECK_ERROR, /* a job fails */
};

struct check_finding {
	enum check_verdict verdict;
	const char *area; /* static string: "plugin", "settings", … */
	const char *id;   /* name of the check for scripts, static string: "net-empty" */
	char *found;      /* one sentence without a full stop; owned */
	char *why;        /* why it matters; NULL = obvious; owned */
	char *fix;        /* what to do; NULL = nothing; owned */
};

struct check_report {
	struct check_finding *findings; /* in the order of finding_add */
	size_t count, room;
};

/* Adds a finding. As all functions here, exits the program if out of memory. */
void finding_add(struct check_report *report, enum check_verdict verdict, const char *area,
		 const char *id, const char *fmt, ...) ANYNET_PRINTF(5, 6);

/* Set why the newest finding matters, and how to fix it. They replace an earlier text. */
void finding_why(struct check_report *report, const char *fmt, ...) ANYNET_PRINTF(2, 3);
void finding_fix(struct check_report *report, const char *fmt, ...) ANYNET_PRINTF(2, 3);

/* Returns the worst verdict; CHECK_OK if there are no findings. */
enum check_verdict findings_worst(const struct check_report *report);
bool findings_have(const struct check_report *report, const char *id);
size_t findings_count(const struct check_report *report, enum check_verdict verdict);

/* Remove all findings after the first `count`, or all below `least`. */
void findings_drop(struct check_report *report, size_t count);
void findings_keep(struct check_report *report, enum check_verdict least);

void findings_free(struct check_report *report);

/* "ok", "note", "warning", "error" */
const char *verdict_name(enum check_verdict verdict);

/* Properties of the output. */
/* As terminal_of, with a width that is easy to read; 0 = do not wrap lines. */
struct terminal findings_terminal(FILE *out);

/* Prints problems first, each with reason and fix, then the other findings by area, then a summary. */
void findings_print_text(const struct check_report *report, const struct terminal *style,
			 FILE *out);
void findings_print_json(const struct check_report *report, FILE *out);

#endif
