/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison with an earlier run; see baseline.h. */
#include "baseline.h"

#include <string.h>

#include "tools/shared/judge/finding.h"

#define FELL 0.7  /* bandwidth below this share of the earlier one is reported */
#define ROSE 2.0  /* minimum round trips above this multiple of the earlier one are reported */
#define MORE 20.0 /* microseconds; smaller increases of round trips are not reported */

static const struct advice advice = {
	.level = "warning",
	.why = "The path between them has become slower.",
	.fix = "Measure again on idle hosts. If the difference stays, compare NICs, cables, switch "
	       "ports, drivers and settings with the earlier state."
};

static void compare_cells(struct blame *slower, struct blame *later, const struct matrix *m,
			  size_t a, size_t b, const struct cell *then)
{
	const struct cell *now = matrix_at(m, a, b);

	if (now->mb_s > 0 && now->mb_s < FELL * then->mb_s)
		blame_pair(slower, a, b, &advice, "%s to %s %.3f GB/s, earlier %.3f GB/s",
			   m->names[a], m->names[b], now->mb_s / 1e3, then->mb_s / 1e3);
	if (now->us_least > ROSE * then->us_least && now->us_least > then->us_least + MORE &&
	    then->us_least > 0)
		blame_pair(later, a, b, &advice,
			   "%s and %s: minimum round trip %.1f us, earlier %.1f us", m->names[a],
			   m->names[b], now->us_least, then->us_least);
}

static void name_hosts(json_t *findings, const struct matrix *m, const struct matrix *other,
		       const char *what)
{
	for (size_t i = 0; i < m->hosts; i++) {
		if (matrix_host(other, m->names[i]) < other->hosts)
			continue;
		judge_add(findings, &(struct advice){ "baseline", "note", "", "" }, "%s: %s",
			  m->names[i], what);
		finding_concerns(findings, json_pack("[s]", m->names[i]));
	}
}

void compare_links(struct blame *slower, struct blame *later, const struct matrix *m,
		   const struct matrix *before)
{
	for (size_t a = 0; a < m->hosts; a++) {
		size_t old_a = matrix_host(before, m->names[a]);

		for (size_t b = 0; b < m->hosts; b++) {
			size_t old_b = matrix_host(before, m->names[b]);

			if (old_a < before->hosts && old_b < before->hosts)
				compare_cells(slower, later, m, a, b,
					      matrix_at(before, old_a, old_b));
		}
	}
}

void compare_names(json_t *findings, const struct matrix *m, const struct matrix *before)
{
	name_hosts(findings, m, before, "is in this run, but was not in the earlier one");
	name_hosts(findings, before, m, "was in the earlier run, but not in this one");
}
