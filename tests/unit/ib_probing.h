/* SPDX-License-Identifier: Apache-2.0 */
/* IB's probe, run on what a script tells the fake libibverbs (tests/fakes/verbs/describe.c) to describe. */
#ifndef TESTS_UNIT_IB_PROBING_H
#define TESTS_UNIT_IB_PROBING_H

#include <nccl_net/device.h>

#include "fakes/verbs/fake_verbs.h"

extern struct anynet_config ib_cfg;
extern struct anynet_probe ib_probed; /* by the newest run */

/* Open the fake and hold it: its counters are still there when the probe has let go of it. False = it
 * cannot be, with the reason on stderr. Before all else. */
bool probing_hold(const char *file);

struct fake_verbs_counts probing_counts(void);

/* cmocka's setup: the fake, and defaults otherwise. The second has TCP look at lo only. */
int probing_setup(void **state);
int probing_setup_on_lo(void **state);

/* Probe. Nothing stays open. */
void probing_run(const char *script);

/* The reason contains `part`. */
void probing_says(const struct anynet_candidate *verdict, const char *part);

#endif
