/* SPDX-License-Identifier: Apache-2.0 */
/* Peers whose Ethernet address the kernel cannot find; see ib_silent.h. */
#include "device/ib_silent.h"

#include <string.h>

#include <nccl_net/util.h>

#include "base/os.h"

#define ASK_MIN_MS 1000
#define ASK_MAX_MS 64000

/* The peer's place. NULL = it has none. */
static struct ib_silent *find(struct ib_nic *nic, const union ibv_gid *peer)
{
	for (size_t i = 0; i < ARRAY_SIZE(nic->silent); i++)
		if (nic->silent[i].pause_ms && !memcmp(&nic->silent[i].peer, peer, sizeof(*peer)))
			return &nic->silent[i];
	return NULL;
}

/* A place for another peer: one that is free, or else the one whose pause ends first. */
static struct ib_silent *take(struct ib_nic *nic, const union ibv_gid *peer)
{
	struct ib_silent *first = nic->silent;

	for (size_t i = 1; i < ARRAY_SIZE(nic->silent); i++)
		if (nic->silent[i].until_ms < first->until_ms)
			first = &nic->silent[i];
	*first = (struct ib_silent){ .peer = *peer, .pause_ms = ASK_MIN_MS / 2 };
	return first;
}

bool ib_silent_pauses(struct ib_nic *nic, const union ibv_gid *peer)
{
	const struct ib_silent *place;
	bool pauses;

	pthread_mutex_lock(&nic->lock);
	place = find(nic, peer);
	pauses = place && os_now_ms() < place->until_ms;
	pthread_mutex_unlock(&nic->lock);
	return pauses;
}

void ib_silent_note(struct ib_nic *nic, const union ibv_gid *peer, bool silent)
{
	struct ib_silent *place;

	pthread_mutex_lock(&nic->lock);
	place = find(nic, peer);
	if (silent) {
		place = place ? place : take(nic, peer);
		place->pause_ms = anynet_min(2 * place->pause_ms, ASK_MAX_MS);
		place->until_ms = os_now_ms() + place->pause_ms;
	} else if (place) {
		*place = (struct ib_silent){ .pause_ms = 0 };
	}
	pthread_mutex_unlock(&nic->lock);
}

void ib_silent_forget(struct ib_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
	memset(nic->silent, 0, sizeof(nic->silent));
	pthread_mutex_unlock(&nic->lock);
}
