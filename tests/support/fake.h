/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for the fake libibverbs that the plugin has loaded by ANYNET_IBVERBS_LIB (tests/fakes/verbs). */
#ifndef TESTS_SUPPORT_FAKE_H
#define TESTS_SUPPORT_FAKE_H

#include <fakes/verbs/fake_verbs.h>

/* Fails the test if the fake refuses the order. */
void fake_order(const char *script);

struct fake_verbs_counts fake_counts(void);

/* Checks that whole pages were registered, and were mapped meanwhile. Nothing, if the fake is not loaded. */
void fake_check_memory(void);

#endif
