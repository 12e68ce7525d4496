/* SPDX-License-Identifier: Apache-2.0 */
/* Open verbs ports, those on offer, and peers that are not found; see ib_nic.h. */
#include "device/ib_nic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/net.h"
#include "base/os.h"
#include "base/socket.h"
#include "device/sysfs.h"

#define ASK_MIN_MS 1000
#define ASK_MAX_MS 64000

/* The probe sets the offers. The lock is for adding to `opened`, and is held while a device is being opened. */
static struct {
	struct verbs verbs, direct; /* direct: for Data Direct engines */
	struct offer {
		char verbs_name[IBV_SYSFS_NAME_MAX];
		uint8_t port;
		bool takes_inline, data_direct;
	} offers[ANYNET_DEVICES_MAX]; /* by the device's index */
	int offer_count;
	pthread_mutex_t lock;
	struct ib_nic *opened[ANYNET_DEVICES_MAX];
	_Atomic int opened_count;
} nics = { .lock = PTHREAD_MUTEX_INITIALIZER };

void ib_nic_offer_start(struct verbs *verbs)
{
	nics.offer_count = 0;
	if (!verbs)
		return;
	if (!nics.opened_count) {
		verbs_close(&nics.verbs);
		nics.verbs = *verbs;
		nics.direct = verbs_by_data_direct(verbs);
		*verbs = (struct verbs){ .library = NULL };
	}
	verbs_close(verbs);
}

void ib_nic_offer(const char *verbs_name, uint8_t port, bool takes_inline, bool data_direct)
{
	struct offer *offer;

	if (nics.offer_count >= ANYNET_DEVICES_MAX)
		return;
	offer = &nics.offers[nics.offer_count++];
	*offer = (struct offer){ .port = port,
				 .takes_inline = takes_inline,
				 .data_direct = data_direct };
	snprintf(offer->verbs_name, sizeof(offer->verbs_name), "%s", verbs_name);
}

bool ib_nic_on_offer(void)
{
	return nics.offer_count;
}

/* NULL: it is a standby device, or fused. Their indices come after those of the offered ones. */
static const struct offer *find_offer(const struct anynet_device *dev)
{
	return dev->index < nics.offer_count ? &nics.offers[dev->index] : NULL;
}

static struct ib_nic *find_opened(const struct offer *offer)
{
	for (int i = 0; i < nics.opened_count; i++) {
		struct ib_nic *nic = nics.opened[i];

		if (nic->port == offer->port && nic->data_direct == offer->data_direct &&
		    !atomic_load(&nic->failed) && !strcmp(nic->verbs_name, offer->verbs_name))
			return nic;
	}
	return NULL;
}

static struct ibv_context *open_verbs_device(const char *name, char *why, size_t why_bytes)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count = 0;

	errno = 0;
	list = nics.verbs.get_device_list(&count);
	if (!list) {
		snprintf(why, why_bytes, "cannot list devices: %s", error_text(errno));
		return NULL;
	}
	snprintf(why, why_bytes, "%s is no longer present", name);
	for (int i = 0; i < count && !context; i++) {
		const char *this_name = nics.verbs.get_device_name(list[i]);

		if (!this_name || strcmp(this_name, name))
			continue;
		errno = 0;
		context = nics.verbs.open_device(list[i]);
		if (!context)
			snprintf(why, why_bytes, "cannot open %s: %s", name, error_text(errno));
	}
	nics.verbs.free_device_list(list); /* an open device stays valid */
	return context;
}

static struct verbs_port port_of(const struct ib_nic *nic)
{
	return (struct verbs_port){ nic->verbs, nic->context, nic->port };
}

static int set_up(struct ib_nic *nic, char *why, size_t why_bytes)
{
	const struct verbs_port port = port_of(nic);
	int ret = nic->verbs->query_device(nic->context, &nic->limits);

	if (ret) {
		snprintf(why, why_bytes, "cannot query the device: %s",
			 error_text(ret > 0 ? ret : errno));
		return -EIO;
	}
	errno = 0;
	nic->pd = nic->verbs->alloc_pd(nic->context);
	if (!nic->pd) {
		snprintf(why, why_bytes, "cannot allocate a protection domain: %s", error_text(errno));
		return -ENOMEM;
	}
	return ib_port_read(anynet_net.cfg, &port, ANYNET_SYSFS, &nic->state, why, why_bytes);
}

static void tear_down(struct ib_nic *nic)
{
	if (nic->pd)
		nic->verbs->dealloc_pd(nic->pd);
	if (nic->context)
		nic->verbs->close_device(nic->context);
	pthread_mutex_destroy(&nic->lock);
	free(nic);
}

static struct ib_nic *open_nic(const struct anynet_device *dev, const struct offer *offer,
			       char *why, size_t why_bytes)
{
	struct ib_nic *nic = calloc(1, sizeof(*nic));
	int ret;

	if (!nic) {
		snprintf(why, why_bytes, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&nic->lock, NULL);
	nic->dev = dev;
	nic->verbs = offer->data_direct ? &nics.direct : &nics.verbs;
	nic->data_direct = offer->data_direct;
	memcpy(nic->verbs_name, offer->verbs_name, sizeof(nic->verbs_name));
	nic->port = offer->port;
	nic->takes_inline = offer->takes_inline;
	nic->context = open_verbs_device(offer->verbs_name, why, why_bytes);
	ret = nic->context ? set_up(nic, why, why_bytes) : -ENODEV;
	if (!ret || ret == -ENETDOWN || ret == -EADDRNOTAVAIL)
		return nic;
	tear_down(nic);
	return NULL;
}

struct ib_nic *ib_nic_open(const struct anynet_device *dev, bool *is_new, char *why,
			   size_t why_bytes)
{
	const struct offer *offer = find_offer(dev);
	struct ib_nic *nic;

	*is_new = false;
	if (!offer) {
		snprintf(why, why_bytes, "%s is not a verbs device that is offered", dev->name);
		return NULL;
	}
	snprintf(why, why_bytes, "too many devices are open");
	pthread_mutex_lock(&nics.lock);
	nic = find_opened(offer);
	if (!nic && nics.opened_count < ANYNET_DEVICES_MAX) {
		nic = open_nic(dev, offer, why, why_bytes);
		if (nic) {
			nic->number = (unsigned)nics.opened_count;
			nics.opened[nic->number] = nic;
			nics.opened_count++; /* only now ib_nic_opened finds it */
		}
		*is_new = nic;
	}
	pthread_mutex_unlock(&nics.lock);
	return nic;
}

struct ib_nic *ib_nic_opened(int i)
{
	return i < nics.opened_count ? nics.opened[i] : NULL;
}

int ib_nic_refresh(struct ib_nic *nic)
{
	const struct verbs_port port = port_of(nic);
	struct ib_port state;
	char why[ANYNET_REASON_BYTES];
	int ret = ib_port_read(anynet_net.cfg, &port, ANYNET_SYSFS, &state, why, sizeof(why));

	if (ret == -EIO)
		return ret;
	pthread_mutex_lock(&nic->lock);
	nic->state = state;
	pthread_mutex_unlock(&nic->lock);
	return ret;
}

struct ibv_port_attr ib_nic_attr(struct ib_nic *nic)
{
	struct ibv_port_attr attr;

	pthread_mutex_lock(&nic->lock);
	attr = nic->state.attr;
	pthread_mutex_unlock(&nic->lock);
	return attr;
}

/* Do connections from the device's address leave by this port? */
static bool dials_by_port(const struct ib_nic *nic)
{
	struct sockaddr_storage addr;

	for (int i = 0; i < nic->state.gids.count; i++) {
		gid_addr(&nic->state.gids.gids[i], &addr);
		if (socket_same_ip(&addr, &nic->dev->addr))
			return true;
	}
	return false;
}

int ib_nic_choose_gid(struct ib_nic *nic, const struct gid *peer, const struct sockaddr_storage *to,
		      struct gid *own, char *why, size_t why_bytes)
{
	struct gid_wish wish = { .cfg = anynet_net.cfg, .peer = peer, .routes = gid_has_route };
	struct gid near;
	int ret;

	pthread_mutex_lock(&nic->lock);
	wish.link_layer = nic->state.attr.link_layer;
	if (to && dials_by_port(nic)) {
		near = gid_of_addr(to);
		wish.near = &near;
	}
	ret = gid_choose(&wish, nic->state.gids.gids, nic->state.gids.count, why, why_bytes);
	if (ret >= 0)
		*own = nic->state.gids.gids[ret];
	pthread_mutex_unlock(&nic->lock);
	return ret < 0 ? ret : 0;
}

/* --- peers that are not found --- */

/* The peer's place. NULL = it has none. */
static struct ib_silent *find_silent(struct ib_nic *nic, const union ibv_gid *peer)
{
	for (size_t i = 0; i < ARRAY_SIZE(nic->silent); i++)
		if (nic->silent[i].pause_ms && !memcmp(&nic->silent[i].peer, peer, sizeof(*peer)))
			return &nic->silent[i];
	return NULL;
}

/* A place for another peer: one that is free, or else the one whose pause ends first. */
static struct ib_silent *take_silent(struct ib_nic *nic, const union ibv_gid *peer)
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
	place = find_silent(nic, peer);
	pauses = place && os_now_ms() < place->until_ms;
	pthread_mutex_unlock(&nic->lock);
	return pauses;
}

void ib_silent_note(struct ib_nic *nic, const union ibv_gid *peer, bool silent)
{
	struct ib_silent *place;

	pthread_mutex_lock(&nic->lock);
	place = find_silent(nic, peer);
	if (silent) {
		place = place ? place : take_silent(nic, peer);
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
