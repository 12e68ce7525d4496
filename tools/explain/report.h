/* SPDX-License-Identifier: Apache-2.0 */
/* The findings in the logs: counted per rule while reading, ordered by report_conclude. */
#ifndef EXPLAIN_REPORT_H
#define EXPLAIN_REPORT_H

#include "rules.h"
#include "sources.h"

#define REPORT_MESSAGE 480 /* bytes of a quoted message, including the NUL */
#define REPORT_VALUES  6   /* different values kept of a RULE_DIFFER; further ones are ignored */
#define REPORT_VALUE   96  /* bytes of a value, including the NUL */
#define REPORT_TEXTS \
	8 /* findings of a rule_is_general with different texts; of further texts the newest is kept */

/* A bitmap of source numbers (sources.h). */
struct source_set {
	uint64_t *bits;
	unsigned words;
};

struct place {
	int file; /* index in report.files; -1 = no place yet */
	unsigned long line;
	int64_t time_us; /* origin.time_us */
};

struct value {
	char text[REPORT_VALUE];
	unsigned long count;
	struct place first;
	struct source_set sources;
};

/* Whether an error is the cause of the failure. */
enum confidence {
	CONFIDENCE_CERTAIN,
	CONFIDENCE_LIKELY,      /* unknown, promoted, possibly another rank's, or not the first */
	CONFIDENCE_CONSEQUENCE, /* of another finding, or of a cause that is not in the log */
};

/* The progress of a rank, for a RULE_BEHIND. */
struct rank_progress {
	char *group; /* only ranks of one group are compared */
	int rank;    /* in the group */
	int name;    /* of the process in the job, as far as its lines show it; otherwise `rank` */
	unsigned source;
	unsigned long long value;
};

struct finding {
	const struct rule *rule;
	struct finding *next; /* of the same rule with another text */
	char *text; /* of the line, as far as it tells it from others; NULL = not compared */
	/* Starts as the rule's kind. report_conclude changes it to RULE_ERROR, RULE_WARNING or RULE_FOLLOWS. */
	enum rule_kind kind;
	enum confidence confidence;
	unsigned long count; /* matched lines; 0 = not found */
	struct place first, last; /* `last` in the order of reading */
	unsigned first_source;
	char *message;           /* the first line, cleaned (clean.h) */
	char *title, *why, *fix; /* the rule's texts with the fields of the first line */
	struct source_set sources;
	struct value *values; /* for a RULE_DIFFER */
	int value_count;
	struct rank_progress *progress; /* for a RULE_BEHIND */
	size_t progress_count;
	struct finding **follows; /* its consequences; not owned */
	size_t follow_count;
};

struct log_file {
	char *name; /* cleaned (clean.h) */
	unsigned long lines;
};

/* A log that could not be read, at least not to its end. */
struct unread {
	char *name, *why; /* cleaned (clean.h) */
};

struct report {
	struct sources sources;
	struct log_file *files;
	int file_count;
	struct unread *unread;
	size_t unread_count;
	unsigned long lines;
	unsigned long long bytes;
	/* One for each rule, at rule.number, then those with further texts. report_conclude removes those without a line. */
	struct finding **findings;
	size_t finding_count;
	/* Set by report_conclude; some of `findings`, the likeliest cause first. */
	struct finding **errors, **warnings, **harmless;
	size_t error_count, warning_count, harmless_count;
};

/* Keeps pointers to the rules, which must outlive the report. */
struct report *report_new(const struct rules *rules);

/* Adds a file, with no lines yet. Returns its index in report.files. */
int report_file(struct report *report, const char *name);

void report_unread(struct report *report, const char *name, const char *why);

/* A line that a rule has matched. */
struct sighting {
	const struct place *place;
	unsigned source;
	const char *line; /* the part to quote */
	size_t bytes;
	const struct match *match;
};

/* Counts the line for its rule. Copies what it keeps. */
void report_add(struct report *r, const struct rule *rule, const struct sighting *seen);

/* Sets title, why and fix: the rule's texts with the fields of the match. */
void report_expand(struct finding *finding, const struct match *match);

/* Decides what is a cause and what a consequence, and fills the lists. Call once, after all lines (inquiry.c). */
void report_conclude(struct report *report);

const char *report_confidence_text(enum confidence confidence);

/*
 * Returns the exit status: 0 nothing found or only harmless lines, 1 warnings only, 2 errors, 3 no errors, but not
 * everything could be read.
 */
int report_status(const struct report *report);

/* Returns "ranks 0-3, 7 on node1, node2". What is not known is omitted; "" if nothing is known. */
char *report_who(const struct report *report, const struct source_set *set);

/* Stores the known ranks of `set` in `ranks`, which has room for sources.count: sorted, unique. Returns how many. */
size_t report_ranks(const struct report *report, const struct source_set *set, int *ranks);

bool source_set_has(const struct source_set *set, unsigned source);

#endif
