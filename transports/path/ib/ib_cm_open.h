/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm and its event channel, of which a process has one. */
#ifndef ANYNET_IB_CM_OPEN_H
#define ANYNET_IB_CM_OPEN_H

#include <stdbool.h>

#include "device/rdmacm.h"

/* Opens the library and a channel, which does not block. From then on the background thread calls `read` when events may
 * have come (ib_events.h). NULL: `why` has the reason, and the library is closed. */
struct rdma_event_channel *ib_cm_open(struct rdmacm *lib, bool (*read)(bool wait), char *why,
				      size_t why_bytes);

#endif
