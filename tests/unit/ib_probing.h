/* SPDX-License-Identifier: Apache-2.0 */
/* IB's probe on devices that a script describes to the fake libibverbs (tests/fakes/verbs/describe.c). */
#ifndef TESTS_UNIT_IB_PROBING_H
#define TESTS_UNIT_IB_PROBING_H

#include <nccl_net/device.h>

#include "fakes/verbs/fake_verbs.h"

extern struct anynet_config ib_cfg;
extern struct anynet_probe ib_probed; /* of the newest run */

/* Opens the fake and keeps it open: its counters remain when the probe has closed it. False = it cannot be opened, with
 * the reason on stderr. To be called first. */
bool probing_hold(const char *file);

struct fake_verbs_counts probing_counts(void);

/* Setup functions for cmocka: the fake, and defaults otherwise. The second makes TCP use lo only. */
int probing_setup(void **state);
int probing_setup_on_lo(void **state);

/* Probes. Nothing stays open. */
void probing_run(const char *script);

/* The reason contains `part`. */
void probing_says(const struct anynet_candidate *verdict, const char *part);

#endif
