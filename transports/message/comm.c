/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a comm, noted for the session; see comm.h. */
#include "message/comm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void comm_note_fault(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
		     const char *fmt, ...)
{
	struct comm_fault *fault = &comm->fault;
	va_list args;

	if (fault->err)
		return;
	comm->noted = true;
	fault->err = err;
	fault->stream = stream;
	va_start(args, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, args);
	va_end(args);
}

int comm_note_gpu_fault(struct anynet_comm *comm, const struct anynet_stream *stream,
			const struct gpu *gpu)
{
	char why[160];

	comm_note_fault(comm, stream, -EIO, "cannot copy GPU memory: %s",
			gpu_why(gpu, why, sizeof(why)));
	return -EIO;
}

bool comm_use_tcp(struct anynet_comm *comm, const char *why)
{
	if (atomic_exchange(&comm->tcp.only, true))
		return false;
	comm->noted = true;
	snprintf(comm->tcp.why, sizeof(comm->tcp.why), "%s", why);
	return true;
}

void comm_unpark(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i])
			comm->streams[i]->path.parked = false;
}
