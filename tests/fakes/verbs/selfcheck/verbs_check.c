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

#include <dlfcn.h>
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

static void find(const char *name, const char *version, void *function)
{
	void *library = rig.verbs.library;
	void *symbol = version ? dlvsym(library, name, version) : dlsym(library, name);

	check_that(symbol, "%s lacks %s", rig.library, name);
	memcpy(function, &symbol, sizeof(symbol));
}

static void open_library(void)
{
	const struct verbs *verbs = &rig.verbs;
	struct verbs_besides *besides = &rig.besides;
	char why[256];

	check_that(!verbs_open(rig.library, &rig.verbs, why, sizeof(why)), "%s", why);
	check(verbs->fork_init && verbs->reg_mr_iova2 && verbs->query_ece && verbs->set_ece &&
	      verbs->query_gid_table && verbs->reg_dmabuf_mr);
	check_ok(verbs->fork_init());
	find("_ibv_query_gid_ex", "IBVERBS_1.11", &besides->query_gid_ex);
	find("ibv_create_comp_channel", "IBVERBS_1.0", &besides->create_comp_channel);
	find("ibv_destroy_comp_channel", "IBVERBS_1.0", &besides->destroy_comp_channel);
	find("ibv_get_cq_event", "IBVERBS_1.1", &besides->get_cq_event);
	find("ibv_ack_cq_events", "IBVERBS_1.1", &besides->ack_cq_events);
	if (!rig.traits->fake)
		return;
	find("fake_verbs_script", NULL, &rig.control.script);
	find("fake_verbs_reset", NULL, &rig.control.reset);
	find("fake_verbs_counts", NULL, &rig.control.counts);
	find("fake_verbs_tell", NULL, &rig.control.tell);
	find("fake_verbs_ask", NULL, &rig.control.ask);
}

/* The description of a check is for one of the devices x and y, which the ends use then. */
static void run(const struct selfcheck *check)
{
	if (check->description) {
		check_ok(setenv("FAKE_VERBS", check->description, 1));
		rig.devices[0] = "x";
		rig.devices[1] = "y";
	}
	open_library();
	if (check->setting != CLOSED)
		ends_open();
	if (check->setting == CONNECTED || check->setting == GPU)
		ends_connect(&usual);
	if (check->setting == GPU)
		gpu_begin();
	check->run();
	if (check->setting == GPU)
		gpu_end();
	if (check->setting != CLOSED)
		ends_close();
	expect_nothing_open();
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
		failed += selfcheck_run(lists[i], run);
	if (kind->fake) {
		failed += selfcheck_run(faults_checks, run);
		failed += selfcheck_run(scripts_checks, run);
		failed += rig.cuda ? selfcheck_run(gpu_checks, run) : 0;
		remove_wire();
	}
	return failed ? 1 : 0;
}
