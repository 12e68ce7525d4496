/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `anynet check` has found: the report that its areas fill and that is printed as text or JSON.
 * Texts may come from the environment or from files: they are made printable as they come in, so
 * that what is printed is always valid UTF-8 without control characters. One thread.
 */
#ifndef CHECK_FINDINGS_H
#define CHECK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <nccl_net/util.h>

enum check_verdict {
	CHECK_OK,    /* looked at, and good */
	CHECK_NOTE,  /* worth knowing; nothing to do */
	CHECK_WARN,  /* works, but not as was meant, or not well; or will fail elsewhere */
	CHECK_ERROR, /* a job fails with this */
};

struct check_finding {
	enum check_verdict verdict;
	const char *area; /* "plugin", "settings", …; static */
	const char *id;   /* which check it is, for scripts: "net-empty"; static */
	char *found;      /* one sentence without a full stop; owned, as the next two */
	char *why;        /* why it matters; NULL = it is plain */
	char *fix;        /* what to do; NULL = nothing */
};

struct check_report {
	struct check_finding *findings; /* in the order in which they were added */
	size_t count, room;
};

/* Add a finding. Ends the program if there is no memory left, as all functions here. */
void finding_add(struct check_report *report, enum check_verdict verdict, const char *area,
		 const char *id, const char *fmt, ...) ANYNET_PRINTF(5, 6);

/* Why the newest finding matters, and what to do. A text in place of an earlier one. */
void finding_why(struct check_report *report, const char *fmt, ...) ANYNET_PRINTF(2, 3);
void finding_fix(struct check_report *report, const char *fmt, ...) ANYNET_PRINTF(2, 3);

/* The worst verdict; CHECK_OK if there is no finding. */
enum check_verdict findings_worst(const struct check_report *report);
bool findings_have(const struct check_report *report, const char *id);
size_t findings_count(const struct check_report *report, enum check_verdict verdict);

/* Forgets all behind the first `count`; all that are better than `least`. */
void findings_drop(struct check_report *report, size_t count);
void findings_keep(struct check_report *report, enum check_verdict least);

void findings_free(struct check_report *report);

/* "ok", "note", "warning", "error" */
const char *verdict_name(enum check_verdict verdict);

/* How a terminal wants it. */
struct print_style {
	unsigned width; /* columns; 0 = lines are not broken */
	int colour;
};

/* The style that `out` asks for: its width and colours if it is a terminal (and NO_COLOR is not set). */
struct print_style print_style_of(FILE *out);

/* Problems first, each with reason and remedy, then the rest area by area, then a summary. */
void findings_print_text(const struct check_report *report, const struct print_style *style,
			 FILE *out);
void findings_print_json(const struct check_report *report, FILE *out);

#endif
