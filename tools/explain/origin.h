/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who wrote a line, and when, by what stands before the message: NCCL's host:pid:tid [device], torch's
 * [rank3], [Rank 3] and glog's time, a launcher's "3: " (srun -l), "[1,3]<stderr>:" (mpirun), "node3: "
 * (pdsh), "(worker pid=123, ip=10.0.0.3)" (Ray).
 */
#ifndef EXPLAIN_ORIGIN_H
#define EXPLAIN_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

#define ORIGIN_HOST 64 /* bytes, with the end */

#define ORIGIN_NO_TIME INT64_MIN

struct origin {
	char host[ORIGIN_HOST]; /* letters, digits, '-', '_', '.', ':' only; "" = not said */
	int pid;                /* 0 = not said */
	int device;             /* of CUDA; -1 = not said */
	int rank;               /* -1 = not said */
	int64_t time_us;        /* since the year began, in the log's own time zone */
	size_t message;         /* where the message begins in the line */
};

/* Looks at the first 512 bytes. Never fails: what is not there is not said. */
void origin_parse(struct origin *origin, const char *line, size_t bytes);

#endif
