/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates that were measured several times. One measurement on a busy host proves nothing, so a
 * finding about rates requires that all measurements agree.
 */
#ifndef JUDGE_RATES_H
#define JUDGE_RATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RATES_ENOUGH \
	5 /* measurements before a finding; chance alone makes them agree in 1 of 100 cases */

struct rates {
	double of[2 * RATES_ENOUGH]; /* bytes per microsecond, in ascending order */
	size_t count;
};

/* Reads the rates of an element of "plugin" towards "server" or "client": from its "rates", or else
 * from its only "runs". */
void rates_read(struct rates *rates, const json_t *plugin, const char *to);
/* Returns the best rate in a list of runs towards "server" or "client", in bytes per microsecond; 0
 * = none. */
double rates_best(const json_t *runs, const char *to);
double rates_median(const struct rates *rates);

/* True if one direction is several times as fast as the other in all measurements. */
bool rates_differ(const struct rates *one, const struct rates *other);

/*
 * Adds a repetition to an element of "plugin", which was measured here: "rates" has the best rate of the element and of
 * each repetition, in each direction. An error of a repetition is one of the pair.
 */
void rates_repeat(json_t *plugin, const json_t *again);

#endif
