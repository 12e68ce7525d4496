/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a link: left in order, freed now or, as that may take the kernel seconds, soon. */
#include <pthread.h>
#include <stdlib.h>

#include "base/pinned.h"
#include "path/ib/ib_cm.h"

void ib_link_end(struct ib_link *link, uint64_t *arrived)
{
	ib_cm_quit(link);
	ib_link_fence(link, arrived);
}

void ib_link_free(struct ib_link *link)
{
	if (!link)
		return;
	ib_cm_free(link);
	ib_link_destroy_qp(link);
	if (link->cq)
		link->nic->verbs->destroy_cq(link->cq);
	if (link->mr)
		link->nic->verbs->dereg_mr(link->mr);
	pinned_free(link->memory, link->memory_bytes);
	free(link);
}

static struct {
	pthread_mutex_t lock;
	struct ib_link *links;
} retired = { .lock = PTHREAD_MUTEX_INITIALIZER };

void ib_link_retire(struct ib_link *link)
{
	if (!link)
		return;
	pthread_mutex_lock(&retired.lock);
	link->next = retired.links;
	retired.links = link;
	pthread_mutex_unlock(&retired.lock);
}

void ib_links_reap(void)
{
	struct ib_link *link;

	pthread_mutex_lock(&retired.lock);
	link = retired.links;
	retired.links = NULL;
	pthread_mutex_unlock(&retired.lock);
	while (link) {
		struct ib_link *next = link->next;

		ib_link_free(link);
		link = next;
	}
}

bool ib_links_retired(void)
{
	bool any;

	pthread_mutex_lock(&retired.lock);
	any = retired.links;
	pthread_mutex_unlock(&retired.lock);
	return any;
}
