/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message layer and two transports that only record their calls: the layers below the plugin's core and ABI adapters
 * when those are tested alone. They find two TCP devices, or the configured verbs ports.
 */
#ifndef ANYNET_TEST_FAKE_COMM_H
#define ANYNET_TEST_FAKE_COMM_H

#include <stdatomic.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>

struct fake_comm {
	int ret;          /* result of the next calls */
	bool nothing_yet; /* succeed, and set the output to NULL */

	atomic_int calls; /* counts of every function below */
	atomic_int probes, starts, trims, closes, listener_closes, deregs;
	/* Verbs ports to find: "iirv" = InfiniBand twice, RoCE, virtual; NULL = none. */
	const char *ports;
	const char *rails, *planes; /* of these, digits or '-'; NULL = none */
	const char *port_name;      /* prefix of their names; NULL = "mlx5_" */
	int more_nics;              /* TCP devices after the usual two, every other one slower */
	atomic_bool hold_probe, probe_held; /* let a probe wait until hold_probe is false */

	const void *_Atomic owner;   /* of the last listen */
	const void *_Atomic trimmed; /* last owner */
	struct anynet_connect_options options;
	const struct anynet_device *dev;
	const void *data;
	size_t bytes[ANYNET_RECVS_MAX];
	int n, tag[ANYNET_RECVS_MAX], type;
	uint64_t offset;
	int fd;
	struct anynet_mr *mr[ANYNET_RECVS_MAX];
	void *phandle;
	void *const *phandles;
	bool polled;
	anynet_profiler profiler;
};

extern struct fake_comm fake;

/* Handles that the fake returns. */
#define FAKE_LISTENER ((void *)0x1000)
#define FAKE_COMM     ((void *)0x2000)
#define FAKE_MR       ((void *)0x3000)
#define FAKE_REQUEST  ((void *)0x4000)
#define FAKE_BYTES    4711 /* size reported by test */

/* The log since the last fake_log_clear. */
struct fake_log {
	int lines, warnings;
	unsigned long flags; /* of the last warning */
	char text[1024];     /* the last warning */
};

extern struct fake_log fake_log;

/* NCCL's logger. One thread at a time. */
void fake_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	ANYNET_PRINTF(5, 6);
void fake_log_clear(void);

#endif
