/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of measured values. */
#ifndef TOOLS_DOUBLES_H
#define TOOLS_DOUBLES_H

#include <stddef.h>
#include <stdlib.h>

static inline int doubles_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void doubles_sort(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), doubles_compare);
}

/* Sorts the values. Returns 0 if there are none, and the upper one of two. */
static inline double doubles_median(double *values, size_t count)
{
	doubles_sort(values, count);
	return count ? values[count / 2] : 0;
}

#endif
