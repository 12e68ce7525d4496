/* SPDX-License-Identifier: Apache-2.0 */
/* The device, its memory and its events; see stub_verbs.h. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "stub_internal.h"
#include "transports/device/ib_nic.h"

#define MRS_MAX    1024
#define EVENTS_MAX 16
#define PORTS      2

#undef ibv_reg_mr /* the header has macros of these names */
#undef ibv_query_port

struct stub_mr {
	struct ibv_mr mr; /* first */
	int access;
};

static struct stub_device {
	struct ibv_device device;
	struct ibv_device *list[2];
	struct ibv_context context;
	struct ibv_pd pd;
	struct stub_mr *mrs[MRS_MAX];
	uint32_t next_key;
	unsigned objects;
	struct ibv_async_event events[EVENTS_MAX];
	unsigned event_count;
} stub = { .next_key = 0x100 };

unsigned stub_refused_mrs;
int stub_mr_error = ENOMEM;

unsigned stub_objects(void)
{
	return stub.objects;
}

struct ibv_context *stub_context(void)
{
	return &stub.context;
}

void *stub_make(size_t bytes)
{
	void *object = calloc(1, bytes);

	must(object);
	stub.objects++;
	return object;
}

int stub_unmake(void *object)
{
	free(object);
	stub.objects--;
	return 0;
}

/* --- the device --- */

static struct ibv_device **get_device_list(int *count)
{
	*count = 1;
	return stub.list;
}

static void free_device_list(struct ibv_device **list)
{
	(void)list;
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	(void)port;
	*attr = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.lid = 7,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			       size_t count, uint32_t flags, size_t entry_bytes)
{
	(void)context;
	(void)flags;
	must(count >= PORTS && entry_bytes == sizeof(*entries));
	for (uint8_t i = 0; i < PORTS; i++) {
		entries[i] =
			(struct ibv_gid_entry){ .port_num = i + 1u, .gid_type = IBV_GID_TYPE_IB };
		entries[i].gid.raw[0] = 0xfe;
		entries[i].gid.raw[1] = 0x80;
		entries[i].gid.raw[15] = i + 1;
	}
	return PORTS;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	stub.pd.context = context;
	return &stub.pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

/* --- memory --- */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct stub_mr *mr;
	unsigned i = 0;

	while (i < MRS_MAX && stub.mrs[i])
		i++;
	if (stub_refused_mrs || i == MRS_MAX) {
		stub_refused_mrs -= !!stub_refused_mrs;
		errno = stub_mr_error;
		return NULL;
	}
	mr = stub.mrs[i] = stub_make(sizeof(*mr));
	mr->mr = (struct ibv_mr){ .context = pd->context,
				  .pd = pd,
				  .addr = addr,
				  .length = bytes,
				  .handle = i,
				  .lkey = stub.next_key,
				  .rkey = stub.next_key };
	mr->access = access;
	stub.next_key++;
	return &mr->mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	stub.mrs[mr->handle] = NULL;
	return stub_unmake(mr);
}

bool stub_is_registered(uint32_t key, uint64_t addr, uint64_t count, int access)
{
	for (unsigned i = 0; i < MRS_MAX; i++) {
		const struct stub_mr *mr = stub.mrs[i];

		if (mr && mr->mr.lkey == key)
			return (mr->access & access) == access &&
			       addr - (uintptr_t)mr->mr.addr <= mr->mr.length &&
			       count <= mr->mr.length - (addr - (uintptr_t)mr->mr.addr);
	}
	return false;
}

/* --- async events --- */

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t one;

	if (read(context->async_fd, &one, sizeof(one)) != sizeof(one))
		return -1; /* errno is EAGAIN */
	*event = stub.events[--stub.event_count];
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

static void put_event(const struct ibv_async_event *event)
{
	uint64_t one = 1;

	if (stub.event_count == EVENTS_MAX)
		return;
	stub.events[stub.event_count++] = *event;
	must(write(stub.context.async_fd, &one, sizeof(one)) == sizeof(one));
}

void stub_event(struct ibv_qp *qp, enum ibv_event_type type)
{
	put_event(&(struct ibv_async_event){ .element.qp = qp, .event_type = type });
}

void stub_port_event(int port, enum ibv_event_type type)
{
	put_event(&(struct ibv_async_event){ .element.port_num = port, .event_type = type });
}

void stub_forget_events(void)
{
	struct ibv_async_event event;

	while (!get_async_event(&stub.context, &event))
		;
}

void stub_forget_events_of(const struct ibv_qp *qp)
{
	for (unsigned i = 0; i < stub.event_count; i++)
		if (stub.events[i].element.qp == qp)
			stub.events[i].event_type = IBV_EVENT_COMM_EST; /* no meaning */
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	(void)device;
	return &stub.context;
}

static int close_device(struct ibv_context *context)
{
	(void)context;
	return 0;
}

void stub_offer(void)
{
	struct verbs verbs = {
		.get_device_list = get_device_list,
		.free_device_list = free_device_list,
		.get_device_name = get_device_name,
		.open_device = open_device,
		.close_device = close_device,
		.query_device = query_device,
		.query_port = query_port,
		.alloc_pd = alloc_pd,
		.dealloc_pd = dealloc_pd,
		.reg_mr = reg_mr,
		.dereg_mr = dereg_mr,
		.get_async_event = get_async_event,
		.ack_async_event = ack_async_event,
		.query_gid_table = query_gid_table,
	};

	stub.context.device = &stub.device;
	stub.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	must(stub.context.async_fd >= 0);
	stub_qp_functions(&verbs, &stub.context);
	strcpy(stub.device.name, STUB_NAME);
	stub.list[0] = &stub.device;
	ib_nic_offer_start(&verbs);
	ib_nic_offer(STUB_NAME, 1, true, false);
}
