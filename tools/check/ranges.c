/* SPDX-License-Identifier: Apache-2.0 */
/* How releases of NCCL find a network plugin; see ranges.h. */
#include "ranges.h"

#include <limits.h>

#include <nccl_net/util.h>

/* clang-format off */
const struct release_range release_ranges[] = {
	{ 20800, 20999, 4, 4, NAMING_FIXED,  false, FILTER_NONE, 0, false },
	{ 21000, 21099, 4, 4, NAMING_FIXED,  false, FILTER_EXACT, 21000, false },
	{ 21100, 21199, 4, 4, NAMING_SUFFIX, false, FILTER_EXACT, 21100, false },
	{ 21200, 21299, 5, 4, NAMING_SUFFIX, false, FILTER_EXACT, 21200, false },
	{ 21300, 21899, 6, 4, NAMING_SUFFIX, false, FILTER_ANY_CASE, 0, true },
	{ 21900, 21999, 7, 5, NAMING_SUFFIX, false, FILTER_ANY_CASE, 0, true },
	{ 22000, 22099, 8, 5, NAMING_SUFFIX, false, FILTER_ANY_CASE, 0, true },
	{ 22100, 22199, 8, 5, NAMING_EITHER, false, FILTER_ANY_CASE, 0, true },
	{ 22200, 22399, 8, 5, NAMING_EITHER, false, FILTER_ANY_CASE, 0, true },
	{ 22400, 22599, 9, 5, NAMING_EITHER, false, FILTER_ANY_CASE, 0, true },
	{ 22600, 22699, 10, 6, NAMING_EITHER, false, FILTER_ANY_CASE, 0, false },
	{ 22700, 22799, 10, 6, NAMING_LIST,   false, FILTER_ANY_CASE, 0, false },
	{ 22800, 22999, 11, 6, NAMING_LIST,   true,  FILTER_ANY_CASE, 22807, false },
	{ 23000, INT_MAX, 12, 6, NAMING_LIST,   true,  FILTER_ANY_CASE, 23000, false },
};
/* clang-format on */
const size_t release_range_count = ARRAY_SIZE(release_ranges);

const struct release_range *release_range_of(int code)
{
	for (size_t i = 0; i < release_range_count; i++) {
		if (code >= release_ranges[i].from && code <= release_ranges[i].to)
			return &release_ranges[i];
	}
	return NULL;
}
