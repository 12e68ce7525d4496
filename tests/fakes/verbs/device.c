/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: list, open, query. */
#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_device *device_of(const struct ibv_context *context)
{
	return (struct fake_device *)(void *)context->device;
}

struct fake_context *context_of(struct ibv_context *context)
{
	return (struct fake_context *)(void *)context;
}

bool gid_is_set(const union ibv_gid *gid)
{
	static const union ibv_gid none;

	return memcmp(gid, &none, sizeof(none)) != 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = NULL;
	int ret;

	fake_lock();
	ret = describe();
	if (!ret)
		ret = fake.list_error;
	if (!ret)
		ret = fault_call("get_device_list", NULL);
	if (!ret) {
		list = calloc((size_t)fake.device_count + 1, sizeof(struct ibv_device *));
		ret = list ? 0 : ENOMEM;
	}
	for (int i = 0; list && i < fake.device_count; i++)
		list[i] = &fake.devices[i].device;
	if (count)
		*count = list ? fake.device_count : 0;
	fake.counts.lists += list != NULL;
	fake_unlock();
	errno = ret;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	fake_lock();
	fake.counts.lists--;
	fake_unlock();
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct fake_context *context_new(struct ibv_device *device)
{
	struct fake_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->notice.fd = eventfd(0, EFD_CLOEXEC);
	if (context->notice.fd < 0) {
		free(context);
		return NULL;
	}
	STAILQ_INIT(&context->events);
	context->context.device = device;
	context->context.cmd_fd = -1;
	context->context.async_fd = context->notice.fd;
	context->context.num_comp_vectors = 1;
	pthread_mutex_init(&context->context.mutex, NULL);
	context->context.ops.post_send = post_send;
	context->context.ops.post_recv = post_recv;
	context->context.ops.poll_cq = cq_poll;
	context->context.ops.req_notify_cq = cq_notify;
	return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	const struct fake_device *fake_device = (struct fake_device *)(void *)device;
	struct fake_context *context = NULL;
	int ret;

	fake_lock();
	ret = fake_device->open_error ? fake_device->open_error : fault_call("open_device", device);
	if (!ret && fake_device->dead)
		ret = EIO;
	if (!ret)
		ret = engine_start();
	if (!ret) {
		context = context_new(device);
		ret = context ? 0 : ENOMEM;
	}
	if (context) {
		LIST_INSERT_HEAD(&fake.contexts, context, next);
		fake.counts.contexts++;
	}
	fake_unlock();
	errno = ret;
	return context ? &context->context : NULL;
}

/* Real ones free everything in the context; here it is an error. */
int ibv_close_device(struct ibv_context *ibv_context)
{
	struct fake_context *context = context_of(ibv_context);
	int ret = 0;

	fake_lock();
	if (context->users) {
		fprintf(stderr, "fake verbs: %s is closed with %d objects in it\n",
			ibv_context->device->name, context->users);
		errno = EBUSY;
		ret = -1;
	} else {
		events_purge(ibv_context, NULL);
		LIST_REMOVE(context, next);
		close(context->notice.fd);
		pthread_mutex_destroy(&ibv_context->mutex);
		free(context);
		fake.counts.contexts--;
		if (LIST_EMPTY(&fake.contexts))
			engine_stop();
	}
	fake_unlock();
	return ret;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const struct fake_device *device = device_of(context);
	int ret;

	fake_lock();
	ret = device->query_error ? device->query_error
				  : fault_call("query_device", context->device);
	if (!ret && device->dead)
		ret = EIO;
	memset(attr, 0, sizeof(*attr));
	if (!ret) {
		snprintf(attr->fw_ver, sizeof(attr->fw_ver), "fake");
		attr->node_guid = attr->sys_image_guid =
			htobe64(0x02fa4e0000000000u + (uint64_t)(device - fake.devices));
		if (device->image_guid >= 0)
			attr->sys_image_guid = htobe64((uint64_t)device->image_guid);
		attr->max_mr_size = UINT64_MAX;
		attr->page_size_cap = 4096;
		attr->max_qp = device->max_qp;
		attr->max_qp_wr = device->max_wr;
		attr->max_sge = attr->max_sge_rd = device->max_sge;
		attr->max_cq = attr->max_mr = attr->max_pd = 1 << 16;
		attr->max_cqe = device->max_cqe;
		attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = device->max_rd_atomic;
		attr->max_pkeys = 1;
		attr->phys_port_cnt = (uint8_t)device->port_count;
	}
	fake_unlock();
	return ret;
}

static void port_attributes(const struct fake_port *port, struct ibv_port_attr *attr)
{
	bool ib = port->layer == IBV_LINK_LAYER_INFINIBAND;

	attr->state = (enum ibv_port_state)port->state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = (enum ibv_mtu)port->mtu;
	attr->gid_tbl_len = GID_TABLE;
	attr->max_msg_sz = 1u << 30;
	attr->pkey_tbl_len = 1;
	attr->lid = (uint16_t)port->lid;
	attr->sm_lid = ib ? 1 : 0;
	attr->max_vl_num = 1;
	attr->active_width = (uint8_t)port->width;
	attr->active_speed = (uint8_t)port->speed;
	attr->phys_state = port->state == IBV_PORT_DOWN ? 3 : 5; /* disabled, link up */
	attr->link_layer = (uint8_t)port->layer;
}

#undef ibv_query_port
/* Like a real library, it knows nothing about later members at the end of the struct. */
int ibv_query_port(struct ibv_context *context, uint8_t number,
		   struct _compat_ibv_port_attr *compat)
{
	const struct fake_device *device = device_of(context);
	int ret;

	fake_lock();
	if (number < 1 || number > device->port_count)
		ret = EINVAL;
	else if (device->dead)
		ret = EIO;
	else if (device->ports[number - 1].query_error)
		ret = device->ports[number - 1].query_error;
	else
		ret = fault_call("query_port", context->device);
	if (!ret)
		port_attributes(&device->ports[number - 1], (struct ibv_port_attr *)(void *)compat);
	fake_unlock();
	return ret;
}

/* As in libibverbs 62; a kernel, or a driver, without the call: EOPNOTSUPP (rdma-core libibverbs/dummy_ops.c). */
int ibv_query_port_speed(struct ibv_context *context, uint32_t number, uint64_t *speed);
int ibv_query_port_speed(struct ibv_context *context, uint32_t number, uint64_t *speed)
{
	const struct fake_device *device = device_of(context);
	int ret = EOPNOTSUPP;

	fake_lock();
	if (number >= 1 && number <= (uint32_t)device->port_count &&
	    device->ports[number - 1].rate) {
		*speed = (uint64_t)device->ports[number - 1].rate;
		ret = 0;
	}
	fake_unlock();
	return ret;
}

static const struct fake_gid *gid_at(struct ibv_context *context, uint32_t port, uint32_t index)
{
	const struct fake_device *device = device_of(context);

	if (port < 1 || port > (uint32_t)device->port_count || index >= GID_TABLE)
		return NULL;
	return &device->ports[port - 1].gids[index];
}

/* Entries that are not set read as zero. */
int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	const struct fake_gid *entry;
	int ret;

	fake_lock();
	fake.counts.gid_reads++;
	entry = gid_at(context, number, (uint32_t)index);
	ret = entry ? fault_call("query_gid", context->device) : EINVAL;
	if (!ret)
		*gid = entry->gid;
	fake_unlock();
	errno = ret;
	return ret ? -1 : 0;
}

static struct ibv_gid_entry gid_entry(const struct fake_gid *gid, uint32_t port, uint32_t index)
{
	return (struct ibv_gid_entry){ .gid = gid->gid,
				       .gid_index = index,
				       .port_num = port,
				       .gid_type = gid->type,
				       .ndev_ifindex = gid->ifindex };
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	const struct fake_gid *gid;
	int ret = 0;

	fake_lock();
	gid = gid_at(context, port_num, gid_index);
	if (!gid || flags || entry_size < sizeof(*entry))
		ret = EINVAL;
	else if (!gid_is_set(&gid->gid))
		ret = ENODATA;
	else
		ret = fault_call("query_gid_ex", context->device);
	if (!ret)
		*entry = gid_entry(gid, port_num, gid_index);
	fake_unlock();
	return ret;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	const struct fake_device *device = device_of(context);
	size_t found = 0;
	int ret;

	fake_lock();
	/* the size passed to the kernel has 16 bits */
	ret = flags || entry_size < sizeof(*entries) || max_entries > UINT16_MAX / entry_size
		      ? EINVAL
		      : fault_call("query_gid_table", context->device);
	for (int port = 1; !ret && port <= device->port_count; port++) {
		for (uint32_t i = 0; i < GID_TABLE && found < max_entries; i++) {
			const struct fake_gid *gid = &device->ports[port - 1].gids[i];

			if (gid_is_set(&gid->gid))
				entries[found++] = gid_entry(gid, (uint32_t)port, i);
		}
	}
	fake_unlock();
	return ret ? -ret : (ssize_t)found;
}

/* Only before any memory is to be protected; with today's kernels it does nothing else. */
int ibv_fork_init(void)
{
	static bool done;
	bool late;

	fake_lock();
	late = !done && (fake.counts.registrations || fake.counts.cqs);
	done |= !late;
	fake_unlock();
	return late ? EINVAL : 0;
}
