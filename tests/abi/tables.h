/* SPDX-License-Identifier: Apache-2.0 */
/* The exported tables over a message layer that only records its calls. */
#ifndef TESTS_ABI_TABLES_H
#define TESTS_ABI_TABLES_H

#include "fakes/stubs/fake_comm.h"

#define STALE ((void *)0xdead)

/* For each test: the plugin has begun, and nothing is recorded. */
int tables_setup(void **state);

#endif
