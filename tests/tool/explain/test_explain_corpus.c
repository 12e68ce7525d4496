/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score of `anynet explain` on the corpus, whose files are the arguments. For the working half it prints each wrong
 * case; for the other half only the figures, so that rules are not written for it.
 */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "reading.h"
#include "support/check.h"

/* In percent of the cases; there may be no false alarm. */
#define FLOOR_RIGHT   90
#define CEILING_WRONG 2
#define CASES_LEAST   130 /* minimum of each half: fails if files were not read */

enum outcome {
	RIGHT,
	WRONG,  /* reported as certain */
	LIKELY, /* wrong, reported as likely */
	HEDGED, /* wrong, reported only as a consequence */
	SILENT,
	FALSE_ALARM,
	OUTCOMES,
};

static const char *const names[] = { "right",       "wrong",  "likely",
				     "consequence", "silent", "false alarm" };

static bool matches(const char *regex, const struct finding *f)
{
	char text[16384];
	regex_t compiled;
	bool found;

	snprintf(text, sizeof(text), "%s\n%s\n%s", f->title, f->why, f->fix);
	check_int(regcomp(&compiled, regex, REG_EXTENDED | REG_ICASE | REG_NOSUB), 0);
	found = !regexec(&compiled, text, 0, NULL, 0);
	regfree(&compiled);
	return found;
}

static bool is_right(const struct corpus_case *c, const struct finding *f)
{
	return f->first.line <= (unsigned long)c->line_count && c->causes[f->first.line] &&
	       (!c->says || matches(c->says, f)) && (!c->says_not || !matches(c->says_not, f));
}

static enum outcome outcome_of(const struct corpus_case *c, const struct report *r)
{
	const struct finding *f = r->error_count     ? r->errors[0]
				  : r->warning_count ? r->warnings[0]
						     : NULL;

	if (c->healthy)
		return r->error_count ? FALSE_ALARM : RIGHT;
	if (!f)
		return SILENT;
	if (is_right(c, f))
		return RIGHT;
	if (!r->error_count)
		return LIKELY;
	return f->confidence == CONFIDENCE_CERTAIN  ? WRONG
	       : f->confidence == CONFIDENCE_LIKELY ? LIKELY
						    : HEDGED;
}

static void tell(const struct corpus_case *c, const struct report *r, enum outcome outcome)
{
	const struct finding *f = r->error_count     ? r->errors[0]
				  : r->warning_count ? r->warnings[0]
						     : NULL;

	printf("%-11s %s (%s)\n", names[outcome], c->name, c->from);
	if (f)
		printf("            [%s] line %lu: %.160s\n", f->rule->id, f->first.line,
		       f->message);
}

static void print_half(const char *name, const unsigned *counts)
{
	unsigned all = 0;

	for (int i = 0; i < OUTCOMES; i++)
		all += counts[i];
	printf("%s: %u cases", name, all);
	for (int i = 0; i < OUTCOMES; i++)
		printf(", %s %u (%.1f %%)", names[i], counts[i], 100.0 * counts[i] / all);
	printf("\n");
	check_that(all >= CASES_LEAST, "there are only %u cases", all);
	check_that(counts[RIGHT] * 100 >= FLOOR_RIGHT * all, "less than %d %% are right",
		   FLOOR_RIGHT);
	check_that(counts[WRONG] * 100 <= CEILING_WRONG * all, "more than %d %% are wrong",
		   CEILING_WRONG);
	check_int(counts[FALSE_ALARM], 0);
}

int main(int argc, char **argv)
{
	struct corpus *corpus = corpus_read(argv + 1, argc - 1);
	unsigned counts[2][OUTCOMES] = { 0 };
	bool all_right = true;

	for (size_t i = 0; i < corpus->count; i++) {
		const struct corpus_case *c = &corpus->cases[i];
		struct report *r = reading_report(c->text, c->bytes, SCAN_BLOCK);
		enum outcome outcome = outcome_of(c, r);

		if (corpus_is_constructed(c))
			all_right &= outcome == RIGHT;
		else
			counts[!corpus_is_working(c)][outcome]++;
		if ((corpus_is_constructed(c) || corpus_is_working(c)) && outcome != RIGHT)
			tell(c, r, outcome);
	}
	print_half("working half", counts[0]);
	print_half("scoring half", counts[1]);
	check_that(all_right, "a constructed case is not right");
	corpus_free(corpus);
	return 0;
}
