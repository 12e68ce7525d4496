/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates that were measured several times. One measurement of a busy host says nothing: what is judged
 * by a rate is judged when all measurements say the same.
 */
#ifndef PAIR_RATES_H
#define PAIR_RATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RATES_ENOUGH \
	5 /* measurements of what looks wrong; chance alone does it in one of a hundred */

struct rates {
	double of[2 * RATES_ENOUGH]; /* bytes per microsecond, least first */
	size_t count;
};

/* Those of an element of "plugin" to "server" or "client": of its "rates", else of its one "runs". */
void rates_read(struct rates *rates, const json_t *plugin, const char *to);
/* The best rate of a list of runs to "server" or "client", in bytes per microsecond; 0 = none. */
double rates_best(const json_t *runs, const char *to);
double rates_median(const struct rates *rates);

/* One direction is several times as fast as the other, in all measurements there are. */
bool rates_differ(const struct rates *one, const struct rates *other);

/* Adds the best runs of another measurement, or of the first, to "rates" of an element of "plugin". */
void rates_add(json_t *plugin, const json_t *runs);

#endif
