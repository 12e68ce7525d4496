/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this process, and which of them a comm uses; see nics.h. */
#include "device/nics.h"

#include <string.h>

#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "base/socket.h"
#include "device/ib_standby.h"

/* Automatic number of streams. One stream carries 10-20 Gb/s on a server core; several also avoid per-flow limits. */
#define STREAMS_2_FROM_MBPS 25000
#define STREAMS_4_FROM_MBPS 100000

/* Max automatic number of streams of a comm over all its NICs: more of them only cost descriptors. */
#define STREAMS_MAX_AUTO 8

#define STANDBY_MIN 2 /* places kept for standby devices in the list of an IB comm */

const struct anynet_device *nic_at(int index)
{
	int nics = anynet_net.device_count;

	return index < nics ? &anynet_net.devices[index] : ib_standby_at(index - nics);
}

const struct anynet_device *nic_with_addr(const struct sockaddr_storage *addr)
{
	const struct anynet_device *dev;

	for (int i = 0; (dev = nic_at(i)); i++)
		if (socket_same_ip(&dev->addr, addr))
			return dev;
	return NULL;
}

static bool has(const struct anynet_device *const *set, int count, const struct anynet_device *dev)
{
	for (int i = 0; i < count; i++)
		if (set[i] == dev)
			return true;
	return false;
}

static bool has_addr(const struct anynet_device *const *set, int count,
		     const struct anynet_device *dev)
{
	for (int i = 0; i < count; i++)
		if (socket_same_ip(&set[i]->addr, &dev->addr))
			return true;
	return false;
}

/* Appends the alternatives of an IB device: the other IB devices, then the standby devices. The last place is for the last
 * of them: if it is slow beside InfiniBand, it does not fail together with it. */
static int add_ways_round(const struct anynet_device **set, int count, int max)
{
	const struct anynet_device *other;
	int first = set[0]->index, ports = max - STANDBY_MIN;
	bool full;

	for (int i = 1; i < anynet_net.device_count && count < ports; i++) {
		other = nic_at((first + i) % anynet_net.device_count);
		if (!has(set, count, other))
			set[count++] = other;
	}
	full = count == max;
	for (int i = anynet_net.device_count; !full && (other = nic_at(i)); i++) {
		if (has_addr(set, count, other))
			continue;
		count += count < max;
		set[count - 1] = other;
	}
	return count;
}

/* May a comm of TCP device `dev` spread over `other`? */
static bool is_equal(const struct anynet_device *dev, const struct anynet_device *other)
{
	return other->speed_mbps == anynet_member(dev, 0)->speed_mbps &&
	       other->addr.ss_family == dev->addr.ss_family && strcmp(other->ifname, "lo");
}

/* Appends the TCP devices that are equal to the comm's, or all others. */
static int add_tcp(const struct anynet_device *dev, const struct anynet_device **set, int count,
		   int max, bool equal)
{
	for (int i = 0; i < anynet_net.device_count && count < max; i++) {
		const struct anynet_device *other = &anynet_net.devices[i];

		if (strcmp(other->ifname, "lo") && !has(set, count, other) &&
		    is_equal(dev, other) == equal)
			set[count++] = other;
	}
	return count;
}

int nic_list(const struct anynet_device *dev, const struct anynet_device **set, int max)
{
	int count = 0;

	while (count < anynet_members(dev) && count < max) {
		set[count] = anynet_member(dev, count);
		count++;
	}
	if (dev->transport == ANYNET_TRANSPORT_IB)
		return add_ways_round(set, count, max);
	count = add_tcp(dev, set, count, max, true);
	return add_tcp(dev, set, count, max, false);
}

static size_t equals_of(const struct anynet_device *dev)
{
	size_t count = 0;

	for (int i = 0; i < anynet_net.device_count; i++)
		count += is_equal(dev, &anynet_net.devices[i]);
	return count;
}

bool nic_is_odd(const struct anynet_device *dev)
{
	const struct anynet_device *set[2];

	return dev->transport == ANYNET_TRANSPORT_TCP && nic_list(dev, set, 2) > 1 &&
	       anynet_members(dev) == 1 && !is_equal(dev, set[1]);
}

/* Has the host a NIC for each GPU? Then NCCL itself spreads its channels over the NICs. */
static bool has_nic_for_each_gpu(size_t nics)
{
	return anynet_net.gpu_count > 0 && nics >= (size_t)anynet_net.gpu_count;
}

int nic_spread(const struct anynet_device *dev)
{
	size_t members = (size_t)anynet_members(dev), equals = equals_of(dev);
	enum anynet_switch stripe = anynet_net.cfg->stripe;

	if (stripe == ANYNET_SWITCH_OFF ||
	    (stripe == ANYNET_SWITCH_AUTO && has_nic_for_each_gpu(equals)))
		equals = 0;
	return (int)anynet_min(anynet_max(members, equals), ANYNET_HELLO_ADDRS);
}

bool nic_needs_qp(const struct anynet_device *dev)
{
	return dev->transport == ANYNET_TRANSPORT_IB && anynet_net.cfg->transport == ANYNET_CHOOSE_IB;
}

static int streams_by_speed(const struct anynet_device *nic)
{
	if (nic->may_be_faster || nic->speed_mbps >= STREAMS_4_FROM_MBPS)
		return 4;
	return nic->speed_mbps < STREAMS_2_FROM_MBPS ? 1 : 2;
}

int nic_streams_wanted(const struct anynet_device *dev)
{
	if (dev->transport == ANYNET_TRANSPORT_IB)
		return (int)anynet_min((size_t)(anynet_members(dev) * anynet_net.cfg->ib_qps),
				       ANYNET_STREAMS_MAX);
	if (anynet_net.cfg->streams_per_nic > 0)
		return anynet_net.cfg->streams_per_nic;
	if (dev->copies_in_kernel)
		return 1;
	return (int)anynet_min((size_t)streams_by_speed(anynet_member(dev, 0)),
			       STREAMS_MAX_AUTO / (size_t)nic_spread(dev));
}
