/* SPDX-License-Identifier: Apache-2.0 */
#include "two_nics.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/device/ib_events.h"
#include "transports/memory/gpu_proof.h"

struct anynet_device other;
struct ib_nic *nics[2];
struct pair pair;
uint8_t data[BYTES];
char why[ANYNET_REASON_BYTES];
struct gpu gpu = { .ordinal = 1, .state = GPU_RESET };
int proofs[2];
struct verbs verbs;
const struct verbs *stub;

void __wrap_gpu_proof_prepare(struct gpu *which);
int __wrap_gpu_prove(struct nic_memory *memory, const struct anynet_mr *mr, bool must_know,
		     char *reason, size_t reason_bytes);

void __wrap_gpu_proof_prepare(struct gpu *which)
{
	(void)which;
}

int __wrap_gpu_prove(struct nic_memory *memory, const struct anynet_mr *mr, bool must_know,
		     char *reason, size_t reason_bytes)
{
	int ret = proofs[memory->nic == nics[1]];

	(void)mr;
	snprintf(reason, reason_bytes, "no proof");
	return ret == -EAGAIN && must_know ? 0 : ret;
}

/* Before the nic registers anything, because its cache keeps the table. */
static void own_verbs(struct ib_nic *nic)
{
	if (stub)
		return;
	stub = nic->verbs;
	verbs = *stub;
	nic->verbs = &verbs;
}

int two_nics_setup(void **state)
{
	pair_setup(state);
	nics[0] = ib_ends_start();
	own_verbs(nics[0]);
	other = local_dev;
	strcpy(other.name, "lo:2");
	other.index = 1;
	nics[1] = ib_events_open(&other, why, sizeof(why));
	if (!nics[1]) {
		ib_nic_offer(STUB_NAME, 2, true, false);
		nics[1] = ib_events_open(&other, why, sizeof(why));
	}
	assert_non_null(nics[1]);
	memset(proofs, 0, sizeof(proofs));
	return 0;
}

int two_nics_teardown(void **state)
{
	(void)state;
	stub_on_post = NULL;
	pair_close(&pair);
	ib_chores_finish();
	capture_check();
	return 0;
}
