/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rules: which lines mean what. rules.txt is the built-in one and says at its top how a
 * rule is written; it is part of the binary.
 */
#ifndef EXPLAIN_RULES_H
#define EXPLAIN_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "filter.h"
#include "pattern.h"

enum rule_kind {
	RULE_ERROR,
	RULE_WARNING,
	RULE_HARMLESS,
	RULE_FOLLOWS, /* what a cause leads to: put under it if the log has one */
	RULE_DIFFER,  /* {value} should be the same in all processes */
	RULE_WHO,     /* says which rank a process is */
	RULE_BEHIND,  /* {value} says how far {rank} of {group} has come */
	RULE_UNKNOWN, /* an error that no rule knows: a warning where nothing has failed */
	RULE_PROGRAM, /* the same, of the program itself: errors of the network come after it */
	RULE_NEXT,    /* the line behind it is an error of NCCL, {text} */
	RULE_SETTING, /* told only where it explains an error */
};

#define RULE_TEXTS 16 /* most patterns, samples or formats of a rule */

struct rule {
	char *id;
	enum rule_kind kind;
	int cause; /* 0 to 99; of two errors the one with the lower number is nearer to the cause */
	char *title;
	char *why;
	char *fix;
	char *versions; /* NULL = all */
	char *see;      /* where this was reported, or NULL */
	char *explains; /* ids of rules, with blanks: a warning is their cause if it came before; or NULL */
	struct pattern *lines[RULE_TEXTS];
	int line_count;
	char *samples[RULE_TEXTS];
	int sample_count;
	char *formats[RULE_TEXTS]; /* of anynet's own warnings, as in its source */
	int format_count;
	int number; /* place in the table */
	int at;     /* line of the rule file */
};

/* A pattern of a rule: what the filter's user numbers mean. */
struct rule_line {
	struct rule *rule;
	struct pattern *pattern;
};

struct rules {
	struct rule **rules;
	size_t count;
	struct rule_line *lines; /* in the order of the rules */
	size_t line_count;
	struct filter *filter;
};

extern const unsigned char explain_rules_text[];
extern const size_t explain_rules_bytes;

/* NULL = out of memory. */
struct rules *rules_new(void);

void rules_free(struct rules *rules);

/* One that is in no table. */
void rule_free(struct rule *rule);

/*
 * Adds the rules in a text, whose name is `file`. What comes first counts first, and a rule whose id
 * an earlier text had is left out. -1 and why ("FILE:LINE: …") if something is wrong; the rules are
 * only good for rules_free then.
 */
int rules_add(struct rules *rules, const char *text, size_t bytes, const char *file, char *why,
	      size_t why_bytes);

/* Builds the filter, once all are added. -1 and why. */
int rules_finish(struct rules *rules, char *why, size_t why_bytes);

/*
 * Compiles the patterns of the first `count` rules, and looks whether each of their samples is matched
 * by its own rule and no earlier one, and each pattern is that of a sample. -1 and why.
 */
int rules_check(struct rules *rules, size_t count, char *why, size_t why_bytes);

/* Such a rule is judged beside the one that has the line. */
bool rule_is_aside(const struct rule *rule);

/* The rule for a line, looking at all of them but those aside. NULL = none. */
struct rule *rules_find(struct rules *rules, const char *line, size_t bytes, struct match *match);

/*
 * `text` with {field} replaced by what matched, cleaned (clean.h), as far as it fits. Returns
 * strlen(out).
 */
size_t rules_expand(char *out, size_t out_bytes, const char *text, const struct match *match);

/* "error", … */
const char *rule_kind_text(enum rule_kind kind);

#endif
