/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the prefix of a log line: the process that wrote it, and the time. It knows NCCL's host:pid:tid [device],
 * torch's [rank3], [Rank 3] and glog time, and the labels of launchers: "3: " (srun -l), "[1,3]<stderr>:" (mpirun),
 * "node3: " (pdsh), "(worker pid=123, ip=10.0.0.3)" (Ray).
 */
#ifndef EXPLAIN_ORIGIN_H
#define EXPLAIN_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

#define ORIGIN_HOST 64 /* bytes, including the NUL */

#define ORIGIN_NO_TIME INT64_MIN

struct origin {
	char host[ORIGIN_HOST]; /* letters, digits, '-', '_', '.', ':' only; "" = not in the line */
	int pid;                /* 0 = not in the line */
	int device;             /* CUDA device; -1 = not in the line */
	int rank;               /* -1 = not in the line */
	int64_t time_us;        /* ORIGIN_NO_TIME = none; comparable within a year and time zone */
	size_t message;         /* offset of the message in the line */
};

/* Parses at most the first 512 bytes of `line`. Never fails. */
void origin_parse(struct origin *origin, const char *line, size_t bytes);

#endif
