/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is behind the others, by the numbers of the operations that they wait for. */
#ifndef EXPLAIN_BEHIND_H
#define EXPLAIN_BEHIND_H

#include "report.h"

/* A rank of a group has come to `value`. */
void behind_add(struct finding *finding, const char *group, size_t group_bytes, int rank,
		unsigned long long value);

/*
 * Whether some ranks are behind the others of their group: then the texts of the finding name them, by
 * {behind}, {value}, {least} and {most}.
 */
bool behind_judge(struct finding *finding);

#endif
