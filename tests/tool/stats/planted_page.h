/* SPDX-License-Identifier: Apache-2.0 */
/* A statistics file written by a test, which may damage it before it is read. */
#ifndef TESTS_TOOL_STATS_PLANTED_PAGE_H
#define TESTS_TOOL_STATS_PLANTED_PAGE_H

#include <stdint.h>

#include "tools/shared/stats/print.h"

#define PLANTED_COMMS 4
#define PLANTED_BYTES (ANYNET_STATS_COMMS_AT + PLANTED_COMMS * ANYNET_STATS_COMM_STEP)
#define PLANTED_MS    1000000u /* the time at which files are written and read, by default */

extern uint8_t planted_bytes[PLANTED_BYTES];

struct anynet_stats_process *planted_head(void);
struct anynet_stats_comm *planted_comm(unsigned slot);
struct anynet_stats_events *planted_events(unsigned slot);

/* Recalculates the checksums. */
void planted_seal(void);

/* A process with `comms` connections to another one, which is named pid 100 + `peer`. */
void planted_fill(uint32_t pid, uint32_t peer, unsigned comms);

struct page planted_parse(void);

#endif
