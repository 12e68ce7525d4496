/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the IB transport relies on, checked on any libibverbs with two RoCE devices that reach each
 * other: the same list on the fake one and on the kernel's software RDMA, so that neither is believed
 * alone.
 *
 *   verbs_check LIBRARY KIND DEVICE DEVICE [LIBCUDA]     KIND: fake, fake-full or rxe
 *
 * LIBCUDA is the fake one of tests/fakes/cuda, for what is to be seen of GPU memory.
 * VERBS_LINK in the environment is a command that takes "down" or "up" and does that to the cable
 * between the two.
 */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

/* clang-format off */
#define AS_SPECIFIED                                                        \
	.refuses_early_sends = true, .purges = true, .told_of_peer = true,  \
	.checks_pkey = true, .late_flush = true,                            \
	.protection = IBV_WC_LOC_PROT_ERR,                                  \
	.short_here = IBV_WC_LOC_LEN_ERR, .short_there = IBV_WC_REM_INV_REQ_ERR
/* clang-format on */

static const struct traits kinds[] = {
	{ .name = "fake", .fake = true, AS_SPECIFIED },
	/* with all that can be described */
	{ .name = "fake-full", .fake = true, .dmabuf = true, .ece = true, AS_SPECIFIED },
	{ .name = "rxe",
	  .refuses_early_sends = true,
	  .protection = IBV_WC_WR_FLUSH_ERR,
	  .short_here = IBV_WC_LOC_QP_OP_ERR,
	  .short_there = IBV_WC_REM_OP_ERR },
};

static char wire[] = "/tmp/fake-verbs-XXXXXX";

static void remove_wire(void)
{
	char path[sizeof(wire) + 16];

	for (int slot = 0; slot < 8; slot++) {
		snprintf(path, sizeof(path), "%s/%d.lock", wire, slot);
		unlink(path);
		snprintf(path, sizeof(path), "%s/%d.sock", wire, slot);
		unlink(path);
	}
	rmdir(wire);
}

int main(int argc, char **argv)
{
	const struct selfcheck *const lists[] = { queries_checks,  data_checks,    states_checks,
						  errors_checks,   streams_checks, links_checks,
						  processes_checks };
	const struct traits *kind = NULL;
	int failed = 0;

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: %s LIBRARY KIND DEVICE DEVICE [LIBCUDA]\n", argv[0]);
		return 2;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, argv[2]))
			kind = &kinds[i];
	if (!kind) {
		fprintf(stderr, "%s: unknown\n", argv[2]);
		return 2;
	}
	if (kind->fake && (!mkdtemp(wire) || setenv("FAKE_VERBS_WIRE", wire, 1))) {
		perror(wire);
		return 1;
	}
	rig.library = argv[1];
	rig.traits = kind;
	rig.devices[0] = argv[3];
	rig.devices[1] = argv[4];
	rig.cuda = argv[5];
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		failed += selfcheck_run(lists[i], rig_run);
	if (kind->fake) {
		failed += selfcheck_run(faults_checks, rig_run);
		failed += selfcheck_run(scripts_checks, rig_run);
		failed += rig.cuda ? selfcheck_run(gpu_checks, rig_run) : 0;
		remove_wire();
	}
	return failed ? 1 : 0;
}
