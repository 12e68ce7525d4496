/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_comm.h. */
#include "fake_comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/device.h>
#include <nccl_net/log.h>

struct fake_comm fake;
struct fake_log fake_log;

void fake_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list args;

	(void)file;
	(void)line;
	fake_log.lines++;
	if (level != ANYNET_LOG_WARN)
		return;
	fake_log.warnings++;
	fake_log.flags = flags;
	va_start(args, fmt);
	vsnprintf(fake_log.text, sizeof(fake_log.text), fmt, args);
	va_end(args);
}

void fake_log_clear(void)
{
	memset(&fake_log, 0, sizeof(fake_log));
}

/* --- the transports --- */

static void add_device(struct anynet_probe *probe, const char *name, const char *pci_path)
{
	struct anynet_device *dev = &probe->devices[probe->device_count];

	dev->transport = ANYNET_TRANSPORT_TCP;
	dev->index = probe->device_count++;
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	snprintf(dev->ifname, sizeof(dev->ifname), "%.15s", name);
	snprintf(dev->pci_path, sizeof(dev->pci_path), "%s", pci_path);
	dev->guid = 0x123456789abcdef0ull + (unsigned)dev->index;
	dev->port = 3;
	dev->speed_mbps = 25000;
	dev->max_comms = 65536;
	dev->max_recvs = 8;
	dev->ptr_support = ANYNET_PTR_HOST | ANYNET_PTR_DMABUF;
	dev->reg_is_global = true;
	dev->force_flush = true;
	dev->rail_id = 5;
	dev->plane_id = 6;
}

static int digit_of(const char *digits, size_t i)
{
	return digits && digits[i] != '-' ? digits[i] - '0' : -1;
}

void anynet_tcp_probe(const struct anynet_config *cfg, struct anynet_probe *probe)
{
	(void)cfg;
	atomic_fetch_add(&fake.probes, 1);
	atomic_store(&fake.probe_held, true);
	while (atomic_load(&fake.hold_probe))
		sched_yield();
	add_device(probe, "eth7", "/sys/devices/pci0000:00/0000:00:1f.6");
	add_device(probe, "eth9", "");
	for (int i = 0; i < fake.more_nics; i++) {
		char name[16];

		snprintf(name, sizeof(name), "more%d", i);
		add_device(probe, name, "/sys/devices/pci0000:00/0000:00:1f.7");
		probe->devices[2 + i].speed_mbps = i % 2 ? 1000 : 25000;
	}
}

/* Properties that differ between devices: those of a fused one must come from the right members. */
void anynet_ib_probe(const struct anynet_config *cfg, struct anynet_probe *probe)
{
	size_t ports = fake.ports ? strlen(fake.ports) : 0;

	(void)cfg;
	for (size_t i = 0; i < ports; i++) {
		struct anynet_device *dev = &probe->devices[i];
		char name[80];

		snprintf(name, sizeof(name), "%s%zu", fake.port_name ? fake.port_name : "mlx5_", i);
		add_device(probe, name,
			   fake.ports[i] == 'v' ? "" : "/sys/devices/pci0000:00/0000:00:02.0");
		dev->transport = ANYNET_TRANSPORT_IB;
		dev->is_roce = fake.ports[i] != 'i';
		dev->port = (int)i + 1;
		dev->speed_mbps = 100000 << i % 4;
		dev->max_comms = 1000 - 10 * (int)i;
		dev->max_recvs = 8 - (int)i % 4;
		dev->ptr_support = ANYNET_PTR_HOST | (i % 4 == 3 ? 0 : ANYNET_PTR_DMABUF);
		dev->force_flush = i % 4 == 2;
		dev->rail_id = digit_of(fake.rails, i);
		dev->plane_id = digit_of(fake.planes, i);
	}
}

void anynet_probe_verdict(struct anynet_probe *probe, enum anynet_transport_kind transport,
			  const char *name, bool usable, const char *fmt, ...)
{
	(void)probe;
	(void)transport;
	(void)name;
	(void)usable;
	(void)fmt;
}

/* --- the message layer --- */

static int answer(void **out, void *value)
{
	atomic_fetch_add(&fake.calls, 1);
	*out = fake.ret || fake.nothing_yet ? NULL : value;
	return fake.ret;
}

void anynet_net_start(const struct anynet_config *cfg, const struct anynet_device *devices,
		      int device_count)
{
	(void)cfg;
	(void)devices;
	(void)device_count;
	atomic_fetch_add(&fake.starts, 1);
}

static unsigned forks;

static void count_fork(void)
{
	forks++;
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

unsigned anynet_net_forks(void)
{
	return forks;
}

void anynet_net_set_nccl(int version, const char *path)
{
	(void)version;
	(void)path;
}

void anynet_net_trim(const void *owner)
{
	fake.trimmed = owner;
	atomic_fetch_add(&fake.trims, 1);
}

int anynet_listen(const struct anynet_device *dev, const void *owner, void *handle,
		  struct anynet_listener **listener)
{
	void *out;
	int ret = answer(&out, FAKE_LISTENER);

	(void)dev; /* not recorded: listen is called from several threads at once */
	fake.owner = owner;
	memset(handle, 0x5a, ANYNET_HANDLE_BYTES);
	*listener = out;
	return ret;
}

int anynet_connect(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		   void *handle, struct anynet_comm **comm)
{
	void *out;
	int ret = answer(&out, FAKE_COMM);

	fake.dev = dev;
	fake.options = *opts;
	fake.data = handle;
	*comm = out;
	return ret;
}

int anynet_accept(struct anynet_listener *listener, struct anynet_comm **comm)
{
	void *out;
	int ret = answer(&out, FAKE_COMM);

	fake.data = listener;
	*comm = out;
	return ret;
}

void anynet_close_listener(struct anynet_listener *listener)
{
	(void)listener;
	atomic_fetch_add(&fake.listener_closes, 1);
}

int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  const struct anynet_dmabuf *dmabuf, struct anynet_mr **mr)
{
	void *out;
	int ret = answer(&out, FAKE_MR);

	(void)comm;
	fake.data = addr;
	fake.bytes[0] = bytes;
	fake.type = type;
	fake.offset = dmabuf ? dmabuf->offset : 0;
	fake.fd = dmabuf ? dmabuf->fd : -1;
	*mr = out;
	return ret;
}

void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr)
{
	(void)comm;
	fake.mr[0] = mr;
	atomic_fetch_add(&fake.deregs, 1);
}

int anynet_isend(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req)
{
	void *out;
	int ret = answer(&out, FAKE_REQUEST);

	(void)comm;
	fake.data = send->data;
	fake.bytes[0] = send->bytes;
	fake.tag[0] = send->tag;
	fake.mr[0] = send->mr;
	fake.phandle = send->phandle;
	*req = out;
	return ret;
}

int anynet_irecv(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req)
{
	void *out;
	int ret = answer(&out, FAKE_REQUEST);

	(void)comm;
	fake.n = recv->n;
	fake.polled = recv->polled;
	fake.data = recv->data[0];
	for (int i = 0; i < recv->n; i++) {
		fake.bytes[i] = recv->bytes[i];
		fake.tag[i] = recv->tags[i];
		fake.mr[i] = recv->mrs ? recv->mrs[i] : NULL;
	}
	fake.phandles = recv->phandles;
	*req = out;
	return ret;
}

int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
		  struct anynet_request **req)
{
	void *out;
	int ret = answer(&out, FAKE_REQUEST);

	(void)comm;
	(void)data;
	fake.n = n;
	fake.mr[0] = n ? mrs[0] : NULL;
	*req = out;
	return ret;
}

int anynet_test(struct anynet_request *req, int *done, int *sizes)
{
	(void)req;
	atomic_fetch_add(&fake.calls, 1);
	*done = !fake.ret && !fake.nothing_yet;
	if (*done && sizes)
		*sizes = FAKE_BYTES;
	return fake.ret;
}

void anynet_close(struct anynet_comm *comm)
{
	(void)comm;
	atomic_fetch_add(&fake.closes, 1);
}

void anynet_net_set_profiler(anynet_profiler profiler)
{
	fake.profiler = profiler;
}
