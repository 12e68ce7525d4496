/* SPDX-License-Identifier: Apache-2.0 */
/* See comm.h. */
#include "message/comm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void comm_note_fault(struct anynet_comm *comm, const struct anynet_rail *rail, int err, const char *fmt,
		     ...)
{
	struct comm_fault *fault = &comm->fault;
	va_list args;

	if (fault->err)
		return;
	comm->noted = true;
	fault->err = err;
	fault->rail = rail;
	va_start(args, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, args);
	va_end(args);
}

int comm_note_gpu_fault(struct anynet_comm *comm, const struct anynet_rail *rail)
{
	char why[160];

	comm_note_fault(comm, rail, -EIO, "cannot copy GPU memory: %s",
			gpu_why(comm->gpu, why, sizeof(why)));
	return -EIO;
}

bool comm_unlink(struct anynet_comm *comm, const char *why)
{
	if (atomic_exchange(&comm->unlinked, true))
		return false;
	comm->noted = true;
	snprintf(comm->fault.unlinked_why, sizeof(comm->fault.unlinked_why), "%s", why);
	return true;
}

void comm_unpark(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i])
			comm->rails[i]->parked = false;
}
