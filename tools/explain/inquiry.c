/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which finding is the cause of the failure and which are its consequences. The number `cause` of a rule
 * is its layer, from the hardware up. An error of the program precedes every network error after it.
 */
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "behind.h"
#include "report.h"
#include "tools/shared/memory.h"

#define CAUSE_SOFTWARE   10 /* from here on, a job can go on after an error; below, its host failed */
#define CAUSE_CONNECTING 30 /* from here on, an error of the program may be the cause */
#define CAUSE_ELSEWHERE  60 /* from here on, another rank may be the cause */

/* Lines of a process's log within which a failure, or the end of the log, follows the error that caused it. */
#define LINES_TO_END 200

const char *report_confidence_text(enum confidence confidence)
{
	static const char *const names[] = { "certain", "likely", "consequence" };

	return names[confidence];
}

/* --- order --- */

static bool by_time; /* nearer_cause compares times: several files, and all findings have one */

static int nearer_cause(const void *left, const void *right)
{
	const struct finding *a = *(struct finding *const *)left;
	const struct finding *b = *(struct finding *const *)right;

	if (a->rule->cause != b->rule->cause)
		return a->rule->cause < b->rule->cause ? -1 : 1;
	if (by_time && a->first.time_us != b->first.time_us)
		return a->first.time_us < b->first.time_us ? -1 : 1;
	if (a->first.file != b->first.file)
		return a->first.file < b->first.file ? -1 : 1;
	if (a->first.line != b->first.line)
		return a->first.line < b->first.line ? -1 : 1;
	return a->rule->number < b->rule->number ? -1 : 1;
}

/* Returns the findings of one kind, the nearest to the cause first. */
static struct finding **list(struct report *r, enum rule_kind kind, size_t *count)
{
	struct finding **found = memory_get((r->finding_count + 1) * sizeof(*found));
	size_t n = 0;

	by_time = r->file_count > 1;
	for (size_t i = 0; i < r->finding_count; i++) {
		struct finding *f = r->findings[i];

		if (f->kind != kind)
			continue;
		found[n++] = f;
		if (f->first.time_us == ORIGIN_NO_TIME)
			by_time = false;
	}
	qsort(found, n, sizeof(struct finding *), nearer_cause);
	*count = n;
	return found;
}

/* Whether `a` may have caused `b`: it is not known to be later. */
static bool may_precede(const struct place *a, const struct place *b)
{
	if (a->file == b->file)
		return a->line <= b->line;
	return a->time_us == ORIGIN_NO_TIME || b->time_us == ORIGIN_NO_TIME ||
	       a->time_us <= b->time_us;
}

/* --- kinds that depend on whether anything has failed --- */

static bool is_failure(const struct finding *f)
{
	return f->kind == RULE_ERROR || f->kind == RULE_FOLLOWS || f->kind == RULE_PROGRAM ||
	       f->kind == RULE_NEXT || f->kind == RULE_END;
}

static bool has_failed(const struct report *r)
{
	for (size_t i = 0; i < r->finding_count; i++)
		if (is_failure(r->findings[i]))
			return true;
	return false;
}

/* Whether a program can handle such an error, or retry, and go on. */
static bool can_be_survived(const struct finding *f)
{
	return f->kind == RULE_UNKNOWN || f->kind == RULE_PROGRAM ||
	       (f->kind == RULE_ERROR && f->rule->cause >= CAUSE_SOFTWARE);
}

/*
 * Whether the job went on after the last such line: neither a failure nor the end of its log comes soon after it. What
 * later errors of this sort are has been decided.
 */
static bool is_survived(const struct report *r, const struct finding *f)
{
	unsigned long processes = (r->sources.count - 1) / (unsigned)r->file_count;
	unsigned long at = f->last.line, next = r->files[f->last.file].lines;

	for (size_t i = 0; i < r->finding_count; i++) {
		const struct finding *other = r->findings[i];

		if (!is_failure(other) || other->first.file != f->last.file)
			continue;
		if (other->first.line > at)
			next = anynet_min(next, other->first.line);
		else if (!can_be_survived(other))
			return false;
	}
	return next - at > LINES_TO_END * (processes ? processes : 1);
}

static int later(const void *left, const void *right)
{
	const struct finding *a = *(struct finding *const *)left;
	const struct finding *b = *(struct finding *const *)right;

	return (a->last.line < b->last.line) - (a->last.line > b->last.line);
}

/* Errors that the program handled, and unknown errors that did not matter, are warnings. */
static void judge_survived(struct report *r)
{
	struct finding **found = memory_get(r->finding_count * sizeof(*found));
	size_t count = 0;

	for (size_t i = 0; i < r->finding_count; i++) {
		if (can_be_survived(r->findings[i]))
			found[count++] = r->findings[i];
	}
	qsort(found, count, sizeof(struct finding *), later);
	for (size_t i = 0; i < count; i++)
		if (is_survived(r, found[i]))
			found[i]->kind = RULE_WARNING;
}

/* Different values and unknown errors can be harmless. They are errors if anything has failed, else warnings. */
static void judge_suspects(struct report *r)
{
	enum rule_kind kind = has_failed(r) ? RULE_ERROR : RULE_WARNING;

	for (size_t i = 0; i < r->finding_count; i++) {
		struct finding *f = r->findings[i];

		if (f->kind == RULE_PROGRAM)
			f->kind = RULE_ERROR;
		else if (f->kind == RULE_UNKNOWN || f->kind == RULE_NEXT ||
			 (f->kind == RULE_DIFFER && f->value_count > 1) ||
			 (f->kind == RULE_BEHIND && behind_judge(f)))
			f->kind = kind;
	}
}

static bool has_word(const char *words, const char *word)
{
	size_t bytes = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += bytes)
		if ((at == words || at[-1] == ' ') && (!at[bytes] || at[bytes] == ' '))
			return true;
	return false;
}

/* Makes `cause` an error, and each later error that it explains a consequence. */
static void promote(struct report *r, struct finding *cause)
{
	for (size_t i = 0; i < r->finding_count; i++) {
		struct finding *f = r->findings[i];

		if ((f->kind != RULE_ERROR && f->kind != RULE_FOLLOWS) ||
		    !has_word(cause->rule->explains, f->rule->id) ||
		    !may_precede(&cause->first, &f->first))
			continue;
		cause->kind = RULE_ERROR;
		f->kind = RULE_FOLLOWS;
	}
}

static void promote_causes(struct report *r)
{
	for (size_t i = 0; i < r->finding_count; i++) {
		struct finding *f = r->findings[i];

		/* Not an error that was survived. */
		if (f->rule->explains && (f->kind == RULE_ERROR || f->rule->kind == RULE_WARNING))
			promote(r, f);
	}
}

/* The end of the job is an error of its own only if no error precedes it. */
static void judge_ends(struct report *r)
{
	for (size_t i = 0; i < r->finding_count; i++) {
		struct finding *end = r->findings[i];
		bool follows = false;

		if (end->kind != RULE_END)
			continue;
		for (size_t j = 0; j < r->finding_count; j++)
			follows |= r->findings[j]->kind == RULE_ERROR &&
				   may_precede(&r->findings[j]->first, &end->first);
		end->kind = follows ? RULE_FOLLOWS : RULE_ERROR;
	}
}

/* --- the first failure --- */

/*
 * Returns the index in r->errors of the first failure: an error of the program that precedes the network errors,
 * otherwise the error of the lowest layer.
 */
static size_t find_first(const struct report *r)
{
	const struct finding *lowest = r->errors[0];

	if (lowest->rule->cause < CAUSE_CONNECTING)
		return 0;
	for (size_t i = 0; i < r->error_count; i++)
		if (rule_is_program(r->errors[i]->rule) &&
		    may_precede(&r->errors[i]->first, &lowest->first))
			return i;
	return 0;
}

static void put_first(struct report *r)
{
	size_t place = r->error_count ? find_first(r) : 0;
	struct finding *first;

	if (!place)
		return;
	first = r->errors[place];
	memmove(r->errors + 1, r->errors, place * sizeof(*r->errors));
	r->errors[0] = first;
}

static void add_follow(struct finding *cause, struct finding *follow)
{
	cause->follows =
		memory_resize(cause->follows, (cause->follow_count + 1) * sizeof(struct finding *));
	cause->follows[cause->follow_count++] = follow;
	follow->confidence = CONFIDENCE_CONSEQUENCE;
}

/* Unknown errors after the first failure become its consequences. */
static void take_unexplained(struct report *r)
{
	size_t kept = 1;

	for (size_t i = 1; i < r->error_count; i++) {
		struct finding *f = r->errors[i];

		if (rule_is_general(f->rule) && may_precede(&r->errors[0]->first, &f->first))
			add_follow(r->errors[0], f);
		else
			r->errors[kept++] = f;
	}
	r->error_count = kept;
}

/* Adds a consequence to the first error that precedes it, or to the first error if none does. */
static void attach(struct report *r, struct finding *follow)
{
	struct finding *cause = r->errors[0];

	for (size_t i = 0; i < r->error_count; i++) {
		if (!may_precede(&r->errors[i]->first, &follow->first))
			continue;
		cause = r->errors[i];
		break;
	}
	add_follow(cause, follow);
}

static enum confidence confidence_of(const struct report *r, const struct finding *f)
{
	if (f->kind == RULE_FOLLOWS)
		return CONFIDENCE_CONSEQUENCE;
	if (rule_is_general(f->rule) || f->rule->cause >= CAUSE_ELSEWHERE ||
	    (f->rule->kind != f->kind && f->rule->kind != RULE_END))
		return CONFIDENCE_LIKELY;
	for (size_t i = 0; i < r->error_count; i++)
		if (r->errors[i] != f &&
		    (!rule_is_general(r->errors[i]->rule) || rule_is_program(r->errors[i]->rule)) &&
		    r->errors[i]->first.file == f->first.file &&
		    r->errors[i]->first.line < f->first.line)
			return CONFIDENCE_LIKELY;
	return CONFIDENCE_CERTAIN;
}

/* Rules that no line has matched have no part in the inquiry. */
static void keep_found(struct report *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->finding_count; i++)
		if (r->findings[i]->count)
			r->findings[kept++] = r->findings[i];
	r->finding_count = kept;
}

void report_conclude(struct report *r)
{
	struct finding **follows;
	size_t count, first = 0;

	keep_found(r);
	judge_survived(r);
	judge_suspects(r);
	promote_causes(r);
	judge_ends(r);
	r->errors = list(r, RULE_ERROR, &r->error_count);
	r->warnings = list(r, RULE_WARNING, &r->warning_count);
	r->harmless = list(r, RULE_HARMLESS, &r->harmless_count);
	follows = list(r, RULE_FOLLOWS, &count);
	put_first(r);
	/* Without an error, the log does not contain the cause: report the first consequence instead. */
	if (count && !r->error_count)
		r->errors[r->error_count++] = follows[first++];
	if (r->error_count)
		take_unexplained(r);
	for (; first < count; first++)
		attach(r, follows[first]);
	for (size_t i = 0; i < r->error_count; i++)
		r->errors[i]->confidence = confidence_of(r, r->errors[i]);
}
