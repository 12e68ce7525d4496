/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths are slower than the others: their speed in one look, and over the window of looks. */
#ifndef CLUSTER_LIVE_SLOW_H
#define CLUSTER_LIVE_SLOW_H

#include "live_window.h"

/* Medians over all paths. A rate of 0 = too few paths to compare. */
struct usual_speed {
	double rate, rtt_us;                               /* in this look */
	double window_rate, window_rtt_us, window_busy_us; /* in the window */
};

/* Whether the path was in use for long enough in this look to measure its rate. */
bool slow_has_data(const struct end *e);

/* Notes this look, which has slot `slot` of the window, and returns what is usual. */
struct usual_speed slow_look(struct live *live, unsigned slot);

/* What this look adds to the evidence that the path is slow; negative if it is not. False = it says nothing. */
bool slow_weight(const struct end *e, const struct usual_speed *usual, double *more);

/* Whether the path may be slow because of a slower one that shares a host with it. */
bool slow_by_another(const struct live *live, const struct end *e);

#endif
