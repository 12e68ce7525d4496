/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a transport's probe; see probe_result.h. */
#include "device/probe_result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void anynet_probe_verdict(struct anynet_probe *probe, enum anynet_transport_kind transport,
			  const char *name, bool usable, const char *fmt, ...)
{
	struct anynet_candidate *candidate;
	va_list args;

	if (probe->candidate_count >= ANYNET_CANDIDATES_MAX)
		return;
	candidate = &probe->candidates[probe->candidate_count++];
	*candidate = (struct anynet_candidate){ .transport = transport, .usable = usable };
	snprintf(candidate->name, sizeof(candidate->name), "%s", name);
	va_start(args, fmt);
	vsnprintf(candidate->reason, sizeof(candidate->reason), fmt, args);
	va_end(args);
}

/* What NCCL has room for (net-api.md §1.5). */
static const int most[] = {
	[ANYNET_TRANSPORT_TCP] = PROBE_TCP_MAX, [ANYNET_TRANSPORT_IB] = PROBE_IB_MAX
};

struct anynet_device *probe_add_device(struct anynet_probe *probe,
				       enum anynet_transport_kind transport, const char *name)
{
	struct anynet_device *dev;

	if (probe->device_count >= most[transport])
		return NULL;
	dev = &probe->devices[probe->device_count];
	memset(dev, 0, sizeof(*dev));
	dev->transport = transport;
	dev->index = probe->device_count++;
	dev->rail_id = dev->plane_id = -1;
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	return dev;
}
