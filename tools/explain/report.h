/* SPDX-License-Identifier: Apache-2.0 */
/* What was found in the logs: counted by rule as it comes, put in order at the end. */
#ifndef EXPLAIN_REPORT_H
#define EXPLAIN_REPORT_H

#include "rules.h"
#include "sources.h"

#define REPORT_MESSAGE 480 /* bytes of a message that is quoted, with the end */
#define REPORT_VALUES  6   /* most values of a RULE_DIFFER that are told apart */
#define REPORT_VALUE   96  /* bytes of one */

/* Which sources, by their numbers. */
struct source_set {
	uint64_t *bits;
	unsigned words;
};

struct place {
	int file; /* in report.files; -1 = nowhere yet */
	unsigned long line;
	int64_t time_us; /* ORIGIN_NO_TIME = not known */
};

struct value {
	char text[REPORT_VALUE];
	unsigned long count;
	struct place first;
	struct source_set sources;
};

/* Of a finding that is told: whether it is what went wrong. */
enum confidence {
	CONFIDENCE_CERTAIN,
	CONFIDENCE_LIKELY,      /* no rule knows it, or another error came before it */
	CONFIDENCE_CONSEQUENCE, /* something went wrong before, of which the log has nothing */
};

/* The furthest that a rank has come, of a RULE_BEHIND. */
struct rank_progress {
	char *group; /* what is compared only with its like */
	int rank;
	unsigned long long value;
};

struct finding {
	const struct rule *rule;
	/* The rule's; of RULE_DIFFER, _UNKNOWN, _PROGRAM, _NEXT and _BEHIND it becomes an error or a warning. */
	enum rule_kind kind;
	enum confidence confidence;
	unsigned long count; /* lines */
	struct place first;
	unsigned first_source;
	char *message; /* the first line, cleaned */
	char *title, *why, *fix;
	struct source_set sources;
	struct value *values; /* of a RULE_DIFFER */
	int value_count;
	struct rank_progress *progress; /* of a RULE_BEHIND */
	size_t progress_count;
	struct finding **follows; /* what it leads to, the nearest first */
	size_t follow_count;
};

struct report {
	struct sources sources;
	char **files; /* names, cleaned (clean.h) */
	int file_count;
	unsigned long lines;
	unsigned long long bytes;
	struct finding *findings; /* one for each rule, by its number */
	size_t rule_count;
	/* After report_conclude: */
	struct finding **errors, **warnings, **harmless; /* first cause first */
	size_t error_count, warning_count, harmless_count;
};

struct report *report_new(const struct rules *rules);

void report_free(struct report *report);

/* From now on lines are of this file. Returns its number. */
int report_file(struct report *report, const char *name);

/* A line, or several, of which a rule tells something. */
struct sighting {
	const struct place *place;
	unsigned source;
	const char *line;
	size_t bytes;
	const struct match *match;
};

/* A line that a rule has matched. `line` is all of it that is to be quoted. */
void report_add(struct report *r, const struct rule *rule, const struct sighting *seen);

/* Once, when all has been read (inquiry.c). */
void report_conclude(struct report *report);

const char *report_confidence_text(enum confidence confidence);

/* 0 nothing, or what is harmless; 1 warnings only; 2 errors. */
int report_status(const struct report *report);

/* "ranks 0-3, 7 on node1, node2": for people. What is not known is left out; "" = nothing is. */
void report_who(const struct report *report, const struct source_set *set, char *text,
		size_t bytes);

/* Sorted, without repetition. Returns how many; `ranks` has room for sources.count. */
size_t report_ranks(const struct report *report, const struct source_set *set, int *ranks);

bool source_set_has(const struct source_set *set, unsigned source);

#endif
