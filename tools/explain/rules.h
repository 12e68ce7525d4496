/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rules, which maps log lines to their meaning. The built-in rules are in rules.txt, which also
 * describes the format; the binary contains them.
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
	RULE_FOLLOWS, /* a consequence; reported below its cause if the log has one */
	RULE_DIFFER,  /* {value} must be the same in all processes */
	RULE_WHO,     /* {rank} (of {nranks}) is the rank of the process */
	RULE_BEHIND,  /* {value} is the progress of {rank} of {group} */
	RULE_UNKNOWN, /* an error that no other rule knows; a warning if nothing has failed */
	RULE_PROGRAM, /* an unknown error of the program; precedes the network errors after it */
	RULE_NEXT,    /* the next line is an error of NCCL, {text} */
	RULE_TRACE, /* as RULE_PROGRAM: the first line of the same process that is not indented is {type}: {text} */
	RULE_END, /* the job was ended from outside; a consequence of an error before it */
};

#define RULE_TEXTS 16 /* maximum number of patterns, samples or formats of a rule */

struct rule {
	char *id;
	enum rule_kind kind;
	int cause; /* layer, 0 to 99; the error with the lower number is nearer to the cause */
	char *title;
	char *why;
	char *fix;
	char *versions; /* NULL = all */
	char *see;      /* where this was reported, or NULL */
	char *explains; /* ids of rules, separated by blanks, whose cause it is if it precedes them; or NULL */
	struct pattern *lines[RULE_TEXTS];
	int line_count;
	char *samples[RULE_TEXTS];
	int sample_count;
	char *formats[RULE_TEXTS]; /* printf formats of anynet's own warnings, as in its source */
	int format_count;
	int number; /* index in the table; set by rules_finish */
	int at;     /* line number in the rule file */
};

/* A pattern and its rule. A user number of the filter is an index in rules.lines. */
struct rule_line {
	struct rule *rule;
	struct pattern *pattern;
};

struct rules {
	struct rule **rules;
	size_t count;
	struct rule_line *lines; /* the patterns of all rules, in the order of the rules */
	size_t line_count;
	struct filter *filter;
};

extern const unsigned char explain_rules_text[];
extern const size_t explain_rules_bytes;

/* Returns an empty table. */
struct rules *rules_new(void);

/* Frees what PCRE2 holds: for tests. */
void rules_free(struct rules *rules);

/*
 * Parses rules and appends them to the table. Earlier rules have precedence; a rule is dropped if an earlier text
 * has one with its id. Returns NULL, or "FILE:LINE: reason"; then only rules_free may follow.
 */
char *rules_add(struct rules *rules, const char *text, size_t bytes, const char *file);

/* Builds the filter. Call once, after all rules_add. Returns NULL, or why it failed. */
char *rules_finish(struct rules *rules);

/*
 * Compiles the patterns of the first `count` rules and checks that each of their samples is matched by its own rule
 * and by no earlier one, and that each pattern matches a sample. Returns NULL, or what is wrong.
 */
char *rules_check(struct rules *rules, size_t count);

/* Whether the rule is for errors whose meaning no rule knows: lines with another text are another error. */
bool rule_is_general(const struct rule *rule);

/* Whether the rule is for errors of the program. */
bool rule_is_program(const struct rule *rule);

/* Whether the rule is for a line after the one that matches, which gives {text}. */
bool rule_awaits(const struct rule *rule);

/* Whether a line that matches this rule can also match another one. */
bool rule_is_additional(const struct rule *rule);

/* Returns the first rule that matches, without a filter and without the rules for which rule_is_additional, or NULL. */
struct rule *rules_find(struct rules *rules, const char *line, size_t bytes, struct match *match);

/* Returns the text with each {field} of the match replaced by its value, cleaned (clean.h) and cut to 160 bytes. */
char *rules_expand(const char *text, const struct match *match);

/* The word for `kind` in rule files, such as "error". */
const char *rule_kind_text(enum rule_kind kind);

#endif
