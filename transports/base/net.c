/* SPDX-License-Identifier: Apache-2.0 */
/* Process-wide state of the message layer and the choices that depend on the host; see net.h. */
#include "base/net.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/socket.h"

#include "device/sysfs.h"
#include "wire/allow.h"
#include "wire/secret.h"

/* Automatic choices. One stream carries 10-20 Gb/s on a server core; several also get past per-flow
 * caps. I/O threads pay only where cores are plentiful: NCCL's own thread already polls. */
#define RAILS_2_FROM_MBPS     25000
#define RAILS_4_FROM_MBPS     100000
#define IO_THREADS_FROM_MBPS  40000
#define IO_THREADS_FROM_CORES 16
#define IO_THREADS_DEFAULT    2

/* Connections of a comm over all its NICs, if nothing is set: more streams than that only cost descriptors. */
#define RAILS_MAX_AUTO 8

#define STANDBY_MIN 2 /* of an IB comm's paths, for TCP */

/* A process that was stopped, or a machine that slept, must not find all its deadlines over: a pause
 * counts for no more than this. */
#define PAUSE_COUNTS_MS 1000

struct anynet_net anynet_net;

/* I/O threads this process runs, if nothing is set: a look at the cores and the links. */
static int choose_io_threads(void)
{
	if (anynet_net.cfg->io_threads >= 0)
		return anynet_net.cfg->io_threads;
	if (sysconf(_SC_NPROCESSORS_ONLN) < IO_THREADS_FROM_CORES)
		return 0;
	for (int i = 0; i < anynet_net.device_count; i++)
		if (anynet_net.devices[i].speed_mbps >= IO_THREADS_FROM_MBPS)
			return IO_THREADS_DEFAULT;
	return 0;
}

/* Of a name of 64 characters, which Linux allows, the first 63. */
static void take_host_name(void)
{
	struct utsname names;

	snprintf(anynet_net.host, sizeof(anynet_net.host), "%.63s",
		 uname(&names) ? "?" : names.nodename);
}

void anynet_net_start(const struct anynet_config *cfg, const struct anynet_device *devices,
		      int device_count)
{
	anynet_net.cfg = cfg;
	anynet_net.devices = devices;
	anynet_net.device_count = device_count;
	anynet_net.io_threads = choose_io_threads();
	anynet_net.gpu_count = sysfs_gpus(ANYNET_SYSFS);
	anynet_net.pid = (uint32_t)getpid();
	take_host_name();
	secret_start(cfg->secret_file);
	allow_start(cfg->allow);
}

void anynet_net_set_profiler(anynet_profiler profiler)
{
	anynet_net.profiler = anynet_net.cfg && anynet_net.cfg->profile ? profiler : NULL;
}

void anynet_net_set_nccl(int version, const char *path)
{
	anynet_net.nccl_version = version;
	snprintf(anynet_net.nccl_path, sizeof(anynet_net.nccl_path), "%s", path ? path : "");
}

void anynet_net_set_name(const char *name)
{
	snprintf(anynet_net.name, sizeof(anynet_net.name), "%s", name);
}

/* Store `value` if it is larger. What was there before. */
static uint64_t advance(_Atomic uint64_t *stored, uint64_t value)
{
	uint64_t before = atomic_load(stored);

	while (value > before && !atomic_compare_exchange_weak(stored, &before, value))
		;
	return before;
}

/* A thread may be held up between any two of these steps: what it brings then is no pause, and no way back.
 * The first one to come after a pause leaves it out for all. */
uint64_t net_now_ms(void)
{
	static _Atomic uint64_t skipped, told;
	struct timespec ts;
	uint64_t clock, out, before, now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	clock = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	out = atomic_load(&skipped);
	do {
		before = atomic_load(&told);
		now = clock > out ? clock - out : 0;
		if (!before || now <= before + PAUSE_COUNTS_MS)
			break;
		now = before + PAUSE_COUNTS_MS;
	} while (!atomic_compare_exchange_weak(&skipped, &out, clock - now));
	before = advance(&told, now);
	return anynet_max(now, before);
}

static ANYNET_COLD int no_random(int err)
{
	anynet_warn("no random numbers from the kernel: %s; no connection can be made",
		    error_text(-err));
	return err;
}

int net_random(void *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = getrandom((char *)data + done, bytes - done, 0);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			return no_random(-errno);
	}
	return 0;
}

const struct anynet_device *net_device(int index)
{
	const struct anynet_device *const *others;
	int standby;

	if (index < anynet_net.device_count)
		return &anynet_net.devices[index];
	others = anynet_ib_transport.standby(&standby);
	index -= anynet_net.device_count;
	return index < standby ? others[index] : NULL;
}

const struct anynet_device *net_device_at(const struct sockaddr_storage *addr)
{
	const struct anynet_device *dev;

	for (int i = 0; (dev = net_device(i)); i++)
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

/* Behind the ports of an IB device: others of its kind, each with a link of its own to be had, and TCP. */
static int add_ways_round(const struct anynet_device **set, int count, int max)
{
	const struct anynet_device *other;
	int first = set[0]->index, ports = max - STANDBY_MIN;

	for (int i = 1; i < anynet_net.device_count && count < ports; i++) {
		other = net_device((first + i) % anynet_net.device_count);
		if (other->link == set[0]->link && !has(set, count, other))
			set[count++] = other;
	}
	for (int i = anynet_net.device_count; count < max && (other = net_device(i)); i++)
		if (!has_addr(set, count, other))
			set[count++] = other;
	return count;
}

/* May a comm of one TCP device spread over the other? */
static bool is_equal(const struct anynet_device *dev, const struct anynet_device *other)
{
	return other->link == dev->link && other->speed_mbps == anynet_member(dev, 0)->speed_mbps &&
	       other->addr.ss_family == dev->addr.ss_family && strcmp(other->ifname, "lo");
}

int net_stripe(const struct anynet_device *dev, const struct anynet_device **set, int max)
{
	int count = 0;

	while (count < anynet_members(dev) && count < max) {
		set[count] = anynet_member(dev, count);
		count++;
	}
	if (dev->link == ANYNET_LINK_IB)
		return add_ways_round(set, count, max);
	if (anynet_net.cfg->stripe == ANYNET_SWITCH_OFF)
		return count;
	for (int i = 0; i < anynet_net.device_count && count < max; i++) {
		const struct anynet_device *other = &anynet_net.devices[i];

		if (!has(set, count, other) && is_equal(dev, other))
			set[count++] = other;
	}
	return count;
}

/* NCCL gives the channels of a host with a NIC for each GPU to all of them. */
static bool has_nic_for_each_gpu(const struct anynet_device *dev)
{
	int nics = 0;

	for (int i = 0; i < anynet_net.device_count; i++)
		nics += is_equal(dev, &anynet_net.devices[i]);
	return anynet_net.gpu_count > 0 && nics >= anynet_net.gpu_count;
}

int net_spread(const struct anynet_device *dev, int count)
{
	if (anynet_net.cfg->stripe == ANYNET_SWITCH_AUTO && has_nic_for_each_gpu(dev))
		return (int)anynet_min((size_t)count, (size_t)anynet_members(dev));
	return count;
}

bool net_needs_link(const struct anynet_device *dev)
{
	return dev->link == ANYNET_LINK_IB && anynet_net.cfg->transport == ANYNET_CHOOSE_IB;
}

static int rails_by_speed(int speed_mbps)
{
	if (speed_mbps < RAILS_2_FROM_MBPS)
		return 1;
	return speed_mbps < RAILS_4_FROM_MBPS ? 2 : 4;
}

int net_rails_wanted(const struct anynet_device *dev)
{
	const struct anynet_device *set[ANYNET_HELLO_ADDRS];
	size_t pairs;

	if (dev->link == ANYNET_LINK_IB)
		return (int)anynet_min((size_t)(anynet_members(dev) * anynet_net.cfg->ib_qps),
				       ANYNET_RAILS_MAX);
	if (anynet_net.cfg->rails_per_nic > 0)
		return anynet_net.cfg->rails_per_nic;
	if (dev->copies_in_kernel)
		return 1;
	pairs = (size_t)net_spread(dev, net_stripe(dev, set, ANYNET_HELLO_ADDRS));
	return (int)anynet_min((size_t)rails_by_speed(anynet_member(dev, 0)->speed_mbps),
			       RAILS_MAX_AUTO / pairs);
}
