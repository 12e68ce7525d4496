/* SPDX-License-Identifier: Apache-2.0 */
/* Fused devices; see fused.h. */
#include "fused.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#define MADE_MAX     256 /* fused devices in the life of the process */
#define PLANES_MAX   14
#define PLANES_FUSED (1 << PLANES_MAX)

/*
 * NCCL sees `places` and `count`. An NCCL that unloads the plugin with its last communicator and reloads it takes the
 * number of devices at that time for the number of NICs, and fuses them again. So fused_restart sets the count to 0,
 * and the same calls then yield the same devices at the same indices. An NCCL that keeps its indices instead can still
 * use them, because entries of `places` are not cleared. With two NCCLs in the process, entries are not replaced either:
 * the other one may use them.
 */
static struct {
	const struct anynet_device *_Atomic places[ANYNET_DEVICES_MAX];
	atomic_int count;
	int kept; /* first entries of `places`, which are not replaced */
	const struct anynet_device *made[MADE_MAX]; /* all that this process has made */
	int made_count;
} fused;

int fused_count(void)
{
	return atomic_load_explicit(&fused.count, memory_order_acquire);
}

const struct anynet_device *fused_at(int i)
{
	if (i < 0 || i >= ANYNET_DEVICES_MAX)
		return NULL;
	return atomic_load_explicit(&fused.places[i], memory_order_acquire);
}

void fused_restart(bool keep)
{
	atomic_store(&fused.count, 0);
	fused.kept = 0;
	while (keep && fused_at(fused.kept))
		fused.kept++;
}

/* --- may they be one? --- */

static bool is_nic(int index, int nic_count)
{
	const struct anynet_device *other = index < nic_count ? NULL : fused_at(index - nic_count);

	if (other)
		anynet_warn("cannot fuse dev %d %s: it is itself a fused device; the devices stay "
			    "separate; check NCCL_NET_FORCE_MERGE",
			    index, other->name);
	else if (index < 0 || index >= nic_count)
		anynet_warn("cannot fuse dev %d, there are %d; the devices stay separate; check "
			    "NCCL_NET_FORCE_MERGE",
			    index, nic_count);
	else
		return true;
	return false;
}

static bool are_nics(const struct anynet_device *nics, int nic_count, const int *indices, int count)
{
	for (int i = 0; i < count; i++) {
		if (!is_nic(indices[i], nic_count))
			return false;
		for (int j = 0; j < i; j++) {
			if (indices[j] != indices[i])
				continue;
			anynet_warn(
				"cannot fuse dev %d %s with itself; the devices stay separate; check "
				"NCCL_NET_FORCE_MERGE",
				indices[i], nics[indices[i]].name);
			return false;
		}
	}
	return true;
}

static const char *kind_of(const struct anynet_device *nic)
{
	return nic->is_roce ? "RoCE" : "InfiniBand";
}

/* Do comms of one use the other as well, without being fused (nic_spread)? */
static bool stripe_together(const struct anynet_config *cfg, const struct anynet_device *a,
			    const struct anynet_device *b)
{
	return cfg->stripe != ANYNET_SWITCH_OFF && a->speed_mbps == b->speed_mbps &&
	       a->addr.ss_family == b->addr.ss_family && strcmp(a->ifname, "lo") &&
	       strcmp(b->ifname, "lo");
}

/*
 * NCCL's topology puts all devices without a PCI address (software RoCE, tunnels) under one NIC, as its ports. NCCL
 * then asks to fuse them, does not find the fused device in its topology, and has no network.
 */
static bool would_be_lost(const struct anynet_config *cfg, const struct anynet_device *nic)
{
	bool asked_for = nic->transport == ANYNET_TRANSPORT_IB && cfg->ib_merge_nics > 1;

	return !nic->pci_path[0] && !asked_for;
}

/* NCCL asks by itself to fuse the ports of one card. So a refusal by policy is an INFO line, and only a mistake of the
 * user is a WARN. */
static bool may_join(const struct anynet_config *cfg, const struct anynet_device *first,
		     const struct anynet_device *nic)
{
	if (first->is_roce != nic->is_roce)
		anynet_warn("dev %d %s (%s) and dev %d %s (%s) cannot be fused: the link types "
			    "differ; select one type with NCCL_IB_HCA",
			    first->index, first->name, kind_of(first), nic->index, nic->name,
			    kind_of(nic));
	else if (nic->transport == ANYNET_TRANSPORT_IB && !cfg->ib_merge_nics)
		anynet_info("dev %d %s and dev %d %s are not fused: ANYNET_IB_MERGE_NICS=0",
			    first->index, first->name, nic->index, nic->name);
	else if (would_be_lost(cfg, first) || would_be_lost(cfg, nic))
		anynet_info("dev %d %s and dev %d %s are not fused: without a PCI address NCCL "
			    "does not find the fused device",
			    first->index, first->name, nic->index, nic->name);
	else if (nic->transport == ANYNET_TRANSPORT_TCP && !stripe_together(cfg, first, nic))
		anynet_info("dev %d %s and dev %d %s are not fused: TCP devices are fused only "
			    "where ANYNET_TCP_STRIPE spreads connections over them",
			    first->index, first->name, nic->index, nic->name);
	else
		return true;
	return false;
}

/* All or none: if only some of the NICs were fused, NCCL 2.24 to 2.30.4 would not use the others (net-api.md
 * §3.12; NCCL src/graph/topo.cc:1007@v2.27.7). */
static bool may_be_one(const struct anynet_config *cfg, const struct anynet_device *nics,
		       int nic_count, const int *indices, int count, int most)
{
	if (count < 1 || count > most) {
		anynet_warn(
			"cannot fuse %d devices: a fused device has 1 to %d; they stay separate; check "
			"NCCL_NET_FORCE_MERGE",
			count, most);
		return false;
	}
	if (!are_nics(nics, nic_count, indices, count))
		return false;
	for (int i = 1; i < count; i++)
		if (!may_join(cfg, &nics[indices[0]], &nics[indices[i]]))
			return false;
	return true;
}

/* --- making one --- */

static bool is_of(const struct anynet_device *dev, const struct anynet_device *nics,
		  const int *indices, int count)
{
	if (dev->member_count != count)
		return false;
	for (int i = 0; i < count; i++)
		if (dev->members[i] != &nics[indices[i]])
			return false;
	return true;
}

/* Guid, port and PCI path stay the first member's, as in NCCL's own IB transport; NCCL itself places the device at the
 * common PCI ancestor. The fields below combine all members. */
static void add_member(struct anynet_device *dev, const struct anynet_device *nic)
{
	dev->members[dev->member_count++] = nic;
	if (dev->member_count == 1)
		return;
	dev->speed_mbps = dev->speed_mbps > INT_MAX - nic->speed_mbps
				  ? INT_MAX
				  : dev->speed_mbps + nic->speed_mbps;
	if (nic->max_comms < dev->max_comms)
		dev->max_comms = nic->max_comms;
	if (nic->max_recvs < dev->max_recvs)
		dev->max_recvs = nic->max_recvs;
	if (nic->rail_id != dev->rail_id)
		dev->rail_id = -1;
	dev->ptr_support &= nic->ptr_support;
	dev->reg_is_global &= nic->reg_is_global;
	dev->force_flush |= nic->force_flush;
}

/* Number of a NIC's plane among the distinct planes, from 1, in the order of the NICs; 0 = the plane is not known. */
static int plane_number(const struct anynet_device *nics, const struct anynet_device *nic)
{
	int number = nic->plane_id >= 0;

	for (int i = 0; nic->plane_id >= 0 && nics[i].plane_id != nic->plane_id; i++) {
		bool is_new = nics[i].plane_id >= 0;

		for (int j = 0; j < i; j++)
			is_new &= nics[j].plane_id != nics[i].plane_id;
		number += is_new;
	}
	return number;
}

/* Each combination of planes is a plane of its own, because NCCL does not connect devices of different planes. Its
 * number is a bit set with the bit PLANES_FUSED, as in NCCL's own IB transport (NCCL
 * src/transport/net_ib/init.cc:95@v2.30.7). -1 = not known. */
static int common_plane(const struct anynet_device *dev, const struct anynet_device *nics)
{
	int plane = PLANES_FUSED;
	bool any = false;

	for (int i = 0; i < dev->member_count; i++) {
		int number = plane_number(nics, dev->members[i]);

		if (number >= PLANES_MAX)
			return -1;
		plane |= 1 << number;
		any |= number;
	}
	return any ? plane : -1;
}

static bool join_names(struct anynet_device *dev)
{
	size_t used = 0;

	for (int i = 0; i < dev->member_count && used < sizeof(dev->name); i++)
		used += (size_t)snprintf(dev->name + used, sizeof(dev->name) - used, "%s%s",
					 i ? "+" : "", dev->members[i]->name);
	return used < sizeof(dev->name);
}

static int make(const struct anynet_device *nics, const int *indices, int count,
		const struct anynet_device **out)
{
	struct anynet_device *dev;

	if (fused.made_count == MADE_MAX) {
		anynet_warn("cannot fuse more devices: this process has already fused %d groups "
			    "of NICs; the others stay separate",
			    MADE_MAX);
		return -EINVAL;
	}
	dev = malloc(sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	*dev = nics[indices[0]];
	dev->index = ANYNET_DEVICES_MAX;
	for (int i = 0; i < count; i++)
		add_member(dev, &nics[indices[i]]);
	dev->plane_id = common_plane(dev, nics);
	if (!join_names(dev)) {
		anynet_warn("cannot fuse %d devices: their joined name is too long: %.60s...; "
			    "they stay separate; fuse fewer with NCCL_NET_FORCE_MERGE",
			    count, dev->name);
		free(dev);
		return -EINVAL;
	}
	*out = fused.made[fused.made_count++] = dev;
	return 0;
}

static int find_or_make(const struct anynet_device *nics, const int *indices, int count,
			const struct anynet_device **out)
{
	*out = &nics[indices[0]];
	if (count == 1)
		return 0;
	for (int i = 0; i < fused.made_count; i++) {
		*out = fused.made[i];
		if (is_of(*out, nics, indices, count))
			return 0;
	}
	return make(nics, indices, count, out);
}

/* The next entry of NCCL's list that is free or has this device. */
static int next_place(const struct anynet_device *dev)
{
	int place = fused_count();

	while (place < fused.kept && fused_at(place) != dev)
		place++;
	return place;
}

static void list(const struct anynet_device *dev, int place)
{
	atomic_store_explicit(&fused.places[place], dev, memory_order_release);
	atomic_store_explicit(&fused.count, place + 1, memory_order_release);
}

int fused_make(const struct anynet_config *cfg, const struct anynet_device *nics, int nic_count,
	       const int *indices, int count, int most)
{
	const struct anynet_device *dev;
	int ret, place;

	if (!may_be_one(cfg, nics, nic_count, indices, count, most))
		return -EINVAL;
	ret = find_or_make(nics, indices, count, &dev);
	if (ret)
		return ret;
	place = next_place(dev);
	if (nic_count + place >= ANYNET_DEVICES_MAX && count == 1)
		return indices[0];
	if (nic_count + place >= ANYNET_DEVICES_MAX) {
		anynet_warn(
			"cannot fuse more devices: there are already %d devices; the others stay "
			"separate",
			nic_count + place);
		return -EINVAL;
	}
	list(dev, place);
	if (count > 1)
		anynet_info("dev %d %s fused of %d, speed %d Mb/s", nic_count + place, dev->name,
			    count, dev->speed_mbps);
	return nic_count + place;
}
