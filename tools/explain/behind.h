/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ranks that are behind the others of their group, by the operation numbers in RULE_BEHIND lines. */
#ifndef EXPLAIN_BEHIND_H
#define EXPLAIN_BEHIND_H

#include "report.h"

/* Records the progress of a rank. The largest value counts. `group` is copied, and progress->group is ignored. */
void behind_add(struct finding *finding, const char *group, size_t group_bytes,
		const struct rank_progress *progress);

/*
 * Returns whether ranks of a group are behind the others. If so, {behind}, {value}, {least} and {most} in the
 * texts of the finding are replaced. Only the first such group is reported. Several groups that cannot be told from each
 * other, because two processes have the same rank, are not judged.
 */
bool behind_judge(struct finding *finding);

#endif
