/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's limit, as a net: one plain TCP socket per comm, without headers and acknowledgements, and
 * one send or recv call per turn. It transfers only bytes (a receive must be posted with the exact size
 * of its send), so that its cost is that of the two sockets in the same loop. Exports ncclNetPlugin_v8.
 */
#include <nccl_net/abi/net_v8.h>

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE     32
#define PTR_HOST  0x1
#define SPEED     10000
#define MAX_COMMS 65536
#define EXPORT    __attribute__((visibility("default")))

typedef enum anynet_nccl_result result_t;
#define OK  ANYNET_NCCL_SUCCESS
#define BAD ANYNET_NCCL_SYSTEM_ERROR

struct raw_comm;

struct raw_request {
	struct raw_comm *comm;
	char *data;
	size_t bytes, moved;
	uint64_t number;
};

struct raw_comm {
	int fd;
	bool is_send;
	struct raw_request queue[QUEUE];
	uint64_t posted, done, taken; /* requests posted, completed, reported by test */
};

/* The handle: the address to connect to and, in the connector's copy, the comm being connected. */
struct raw_handle {
	struct sockaddr_in addr;
	struct raw_comm *comm;
};

static struct sockaddr_in local = { .sin_family = AF_INET };
static char local_name[IF_NAMESIZE];

/* Finds the first IPv4 interface that NCCL_SOCKET_IFNAME (a plain name here) allows. */
static bool find_interface(void)
{
	const char *want = getenv("NCCL_SOCKET_IFNAME");
	struct ifaddrs *list, *i;

	if (getifaddrs(&list))
		return false;
	for (i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		if (want && *want && strcmp(want, i->ifa_name) != 0)
			continue;
		memcpy(&local, i->ifa_addr, sizeof(local));
		strcpy(local_name, i->ifa_name);
		break;
	}
	freeifaddrs(list);
	return i != NULL;
}

static result_t raw_init(anynet_nccl_logger logger)
{
	(void)logger;
	return OK;
}

static result_t raw_devices(int *count)
{
	*count = find_interface();
	return OK;
}

static result_t raw_properties(int dev, struct anynet_net_props_v8 *props)
{
	(void)dev;
	*props = (struct anynet_net_props_v8){
		.name = local_name,
		.ptr_support = PTR_HOST,
		.speed_mbps = SPEED,
		.max_comms = MAX_COMMS,
		.max_recvs = 1,
	};
	return OK;
}

static struct raw_comm *comm_new(int fd, bool is_send)
{
	struct raw_comm *c = fd < 0 ? NULL : calloc(1, sizeof(*c));
	const int one = 1;

	if (!c)
		return NULL;
	c->fd = fd;
	c->is_send = is_send;
	for (int i = 0; i < QUEUE; i++)
		c->queue[i].comm = c;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return c;
}

static result_t raw_close(void *comm)
{
	struct raw_comm *c = comm;

	if (c) {
		close(c->fd);
		free(c);
	}
	return OK;
}

static result_t raw_listen(int dev, void *handle, void **listener)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct raw_handle h = { .addr = local };
	socklen_t len = sizeof(h.addr);

	(void)dev;
	h.addr.sin_port = 0;
	*listener = comm_new(fd, false);
	if (!*listener || bind(fd, (struct sockaddr *)&h.addr, len) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&h.addr, &len))
		return BAD;
	memset(handle, 0, 128);
	memcpy(handle, &h, sizeof(h));
	return OK;
}

static result_t raw_connect(int dev, void *handle, void **comm,
			    struct anynet_net_device_handle **dev_handle)
{
	struct raw_handle *h = handle;

	(void)dev;
	(void)dev_handle;
	*comm = NULL;
	if (!h->comm)
		h->comm = comm_new(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
				   true);
	if (!h->comm)
		return BAD;
	if (!connect(h->comm->fd, (struct sockaddr *)&h->addr, sizeof(h->addr)) || errno == EISCONN)
		*comm = h->comm;
	else if (errno != EINPROGRESS && errno != EALREADY && errno != EAGAIN)
		return BAD;
	return OK;
}

static result_t raw_accept(void *listener, void **comm,
			   struct anynet_net_device_handle **dev_handle)
{
	struct raw_comm *l = listener;
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)dev_handle;
	*comm = NULL;
	if (fd < 0)
		return errno == EAGAIN ? OK : BAD;
	*comm = comm_new(fd, false);
	return *comm ? OK : BAD;
}

static result_t raw_reg_mr(void *comm, void *data, size_t bytes, int type, void **mhandle)
{
	(void)data;
	(void)bytes;
	(void)type;
	*mhandle = comm;
	return OK;
}

static result_t raw_dereg_mr(void *comm, void *mhandle)
{
	(void)comm;
	(void)mhandle;
	return OK;
}

/* Transfers bytes of the oldest requests until the socket would block or request `last` is done. */
static result_t progress(struct raw_comm *c, uint64_t last)
{
	while (c->done < c->posted && c->done <= last) {
		struct raw_request *r = &c->queue[c->done % QUEUE];
		ssize_t n;

		if (r->moved == r->bytes) { /* an empty message needs no bytes on the socket */
			c->done++;
			continue;
		}
		n = c->is_send ? send(c->fd, r->data + r->moved, r->bytes - r->moved, MSG_NOSIGNAL)
			       : recv(c->fd, r->data + r->moved, r->bytes - r->moved, 0);
		if (n < 0)
			return errno == EAGAIN ? OK : BAD;
		if (n == 0)
			return ANYNET_NCCL_REMOTE_ERROR;
		r->moved += (size_t)n;
		if (r->moved == r->bytes)
			c->done++;
	}
	return OK;
}

static void post(struct raw_comm *c, void *data, int bytes, void **request)
{
	struct raw_request *r = &c->queue[c->posted % QUEUE];

	*request = NULL;
	if (c->posted - c->taken == QUEUE)
		return;
	r->data = data;
	r->bytes = (size_t)bytes;
	r->moved = 0;
	r->number = c->posted++;
	*request = r;
}

static result_t raw_isend(void *comm, void *data, int bytes, int tag, void *mhandle, void **request)
{
	struct raw_comm *c = comm;

	(void)tag;
	(void)mhandle;
	post(c, data, bytes, request);
	return progress(c, c->posted);
}

static result_t raw_irecv(void *comm, int n, void **data, int *bytes, int *tags, void **mhandles,
			  void **request)
{
	(void)n;
	(void)tags;
	(void)mhandles;
	post(comm, data[0], bytes[0], request);
	return OK;
}

static result_t raw_iflush(void *comm, int n, void **data, int *bytes, void **mhandles,
			   void **request)
{
	(void)comm;
	(void)n;
	(void)data;
	(void)bytes;
	(void)mhandles;
	*request = NULL;
	return OK;
}

static result_t raw_test(void *request, int *done, int *bytes)
{
	struct raw_request *r = request;
	result_t result = OK;

	if (r->number >= r->comm->done)
		result = progress(r->comm, r->number);
	*done = r->number < r->comm->done;
	if (*done) {
		r->comm->taken++;
		if (bytes)
			*bytes = (int)r->bytes;
	}
	return result;
}

EXPORT extern struct anynet_net_v8 ncclNetPlugin_v8;
struct anynet_net_v8 ncclNetPlugin_v8 = {
	.name = "raw",
	.init = raw_init,
	.devices = raw_devices,
	.get_properties = raw_properties,
	.listen = raw_listen,
	.connect = raw_connect,
	.accept = raw_accept,
	.reg_mr = raw_reg_mr,
	.dereg_mr = raw_dereg_mr,
	.isend = raw_isend,
	.irecv = raw_irecv,
	.iflush = raw_iflush,
	.test = raw_test,
	.close_send = raw_close,
	.close_recv = raw_close,
	.close_listen = raw_close,
};
