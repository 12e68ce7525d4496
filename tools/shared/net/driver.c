/* SPDX-License-Identifier: Apache-2.0 */
/* Opens nets and calls their function tables as NCCL's core and its shims do (driver.h). */
#include "driver_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NCCL's shims narrow message sizes up to this to int (net-api.md §1.6). */
#define SHIM_MESSAGE_MAX ((size_t)1 << 30)

/* Maximum n of a grouped receive (net-api.md §1.5). */
#define RECEIVES_MAX 64

struct driver_net {
	struct driver_found found;
	struct driver_calls calls;
	atomic_int traffic_class; /* of the last init; v10 passes it to connect */
};

/* Serialises loading, searching and patching of libraries. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

/* Finds the newest table among the requested versions. */
static int find_table(struct driver_found *found, int abi, char *err, size_t err_bytes)
{
	int newest = abi == DRIVER_ABI_NEWEST ? DRIVER_ABI_LAST : abi;
	int oldest = abi == DRIVER_ABI_NEWEST ? DRIVER_ABI_FIRST : abi;

	for (int version = newest; version >= oldest; version--) {
		char symbol[32];
		snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
		found->table = dlsym(found->lib, symbol);
		if (found->table) {
			found->abi = version;
			return 0;
		}
	}
	if (abi == DRIVER_ABI_NEWEST)
		snprintf(err, err_bytes, "%s exports no ncclNetPlugin_v%d … _v%d", found->path,
			 DRIVER_ABI_FIRST, DRIVER_ABI_LAST);
	else
		snprintf(err, err_bytes, "%s does not export ncclNetPlugin_v%d", found->path, abi);
	return -1;
}

static int find_plugin(const char *file, int abi, struct driver_found *found, char *err,
		       size_t err_bytes)
{
	found->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!found->lib) {
		snprintf(err, err_bytes, "%s", dlerror());
		return -1;
	}
	if (driver_lib_path(found->lib, found->path, sizeof(found->path), NULL))
		snprintf(found->path, sizeof(found->path), "%s", file);
	if (find_table(found, abi, err, err_bytes)) {
		dlclose(found->lib);
		return -1;
	}
	return 0;
}

/* `spec` is the part after "nccl:": NAME or NAME:PATH. */
static int find_builtin(const char *spec, int abi, struct driver_found *found, char *err,
			size_t err_bytes)
{
	char name[32];
	const char *colon = strchr(spec, ':');
	size_t length = colon ? (size_t)(colon - spec) : strlen(spec);

	snprintf(name, sizeof(name), "%.*s", (int)length, spec);
	if (driver_builtin_find(name, colon ? colon + 1 : NULL, found, err, err_bytes))
		return -1;
	if (abi != DRIVER_ABI_NEWEST && abi != found->abi) {
		snprintf(err, err_bytes, "%s exports its %s net as v%d only, not v%d", found->path,
			 name, found->abi, abi);
		dlclose(found->lib);
		return -1;
	}
	return 0;
}

struct driver_net *driver_open(const char *spec, int abi, char *err, size_t err_bytes)
{
	if (abi != DRIVER_ABI_NEWEST && (abi < DRIVER_ABI_FIRST || abi > DRIVER_ABI_LAST)) {
		snprintf(err, err_bytes, "net ABI v%d is not supported; %d to %d are", abi,
			 DRIVER_ABI_FIRST, DRIVER_ABI_LAST);
		return NULL;
	}
	struct driver_net *net = calloc(1, sizeof(*net));
	if (!net) {
		snprintf(err, err_bytes, "out of memory");
		return NULL;
	}
	pthread_mutex_lock(&open_lock);
	int ret = strncmp(spec, "nccl:", 5)
			  ? find_plugin(spec, abi, &net->found, err, err_bytes)
			  : find_builtin(spec + 5, abi, &net->found, err, err_bytes);
	pthread_mutex_unlock(&open_lock);
	if (ret) {
		free(net);
		return NULL;
	}
	driver_bind(&net->calls, net->found.table, net->found.abi);
	atomic_init(&net->traffic_class, ANYNET_NCCL_UNSET);
	return net;
}

void driver_close(struct driver_net *net)
{
	if (!net)
		return;
	pthread_mutex_lock(&open_lock);
	dlclose(net->found.lib);
	pthread_mutex_unlock(&open_lock);
	free(net);
}

int driver_abi(const struct driver_net *net)
{
	return net->found.abi;
}

const char *driver_name(const struct driver_net *net)
{
	return *(const char *const *)net->found.table;
}

const char *driver_path(const struct driver_net *net)
{
	return net->found.path;
}

/* v11 passes the configuration in memory of the caller, which the plugin must copy. Overwriting it
 * afterwards reveals a plugin that keeps the pointer. */
static int init_v11(struct driver_net *net, void **ctx, uint64_t comm_id, int traffic_class,
		    driver_logger logger, anynet_nccl_profiler profiler)
{
	struct anynet_net_config_v10 config = { .traffic_class = traffic_class };
	int ret = (int)net->calls.init_v11(ctx, comm_id, &config, logger, profiler);
	memset(&config, 0xa5, sizeof(config));
	return ret;
}

int driver_init(struct driver_net *net, void **ctx, uint64_t comm_id, int traffic_class,
		driver_logger logger, void *profiler)
{
	anynet_nccl_profiler callback;
	static_assert(sizeof(callback) == sizeof(profiler), "POSIX: dlsym");
	memcpy(&callback, &profiler, sizeof(callback));

	*ctx = NULL;
	atomic_store(&net->traffic_class, traffic_class);
	if (net->calls.init_v11)
		return init_v11(net, ctx, comm_id, traffic_class, logger, callback);
	if (net->calls.init_v10)
		return (int)net->calls.init_v10(logger, callback);
	return (int)net->calls.init_v5(logger);
}

int driver_devices(struct driver_net *net, int *count)
{
	return (int)net->calls.devices(count);
}

int driver_properties(struct driver_net *net, int dev, struct driver_props *props)
{
	return driver_read_properties(&net->calls, dev, props);
}

int driver_listen(struct driver_net *net, void *ctx, int dev, void *handle, void **listener)
{
	if (net->calls.listen_v11)
		return (int)net->calls.listen_v11(ctx, dev, handle, listener);
	return (int)net->calls.listen_v5(dev, handle, listener);
}

int driver_connect(struct driver_net *net, void *ctx, int dev, void *handle, void **scomm)
{
	const struct driver_calls *calls = &net->calls;
	driver_device_handle *device_handle =
		NULL; /* NULL, as for every net without device offload */

	if (calls->connect_v11)
		return (int)calls->connect_v11(ctx, dev, handle, scomm, &device_handle);
	if (calls->connect_v10) {
		struct anynet_net_config_v10 config = { .traffic_class =
								atomic_load(&net->traffic_class) };
		return (int)calls->connect_v10(dev, &config, handle, scomm, &device_handle);
	}
	if (calls->connect_v7)
		return (int)calls->connect_v7(dev, handle, scomm, &device_handle);
	return (int)calls->connect_v5(dev, handle, scomm);
}

/* Passes no device handle, unlike connect: a plugin must accept both (net-api.md §3.3). */
int driver_accept(struct driver_net *net, void *listener, void **rcomm)
{
	if (net->calls.accept_v7)
		return (int)net->calls.accept_v7(listener, rcomm, NULL);
	return (int)net->calls.accept_v5(listener, rcomm);
}

int driver_reg_mr(struct driver_net *net, void *comm, void *data, size_t bytes, int type,
		  void **mhandle)
{
	if (net->calls.reg_mr_v8)
		return (int)net->calls.reg_mr_v8(comm, data, bytes, type, mhandle);
	if (bytes > INT_MAX)
		return ANYNET_NCCL_INTERNAL_ERROR;
	return (int)net->calls.reg_mr_v5(comm, data, (int)bytes, type, mhandle);
}

int driver_reg_mr_dmabuf(struct driver_net *net, void *comm, const struct driver_region *r,
			 void **mhandle)
{
	if (!net->calls.reg_mr_dmabuf)
		return ANYNET_NCCL_INVALID_USAGE;
	return (int)net->calls.reg_mr_dmabuf(comm, r->data, r->bytes, r->type, r->offset, r->fd,
					     mhandle);
}

int driver_dereg_mr(struct driver_net *net, void *comm, void *mhandle)
{
	return (int)net->calls.dereg_mr(comm, mhandle);
}

int driver_isend(struct driver_net *net, void *scomm, const struct driver_send *s, void **req)
{
	const struct driver_calls *calls = &net->calls;

	if (calls->isend_v10)
		return (int)calls->isend_v10(scomm, s->data, s->bytes, s->tag, s->mhandle,
					     s->phandle, req);
	if (calls->isend_v9)
		return (int)calls->isend_v9(scomm, s->data, s->bytes, s->tag, s->mhandle, req);
	if (s->bytes > SHIM_MESSAGE_MAX)
		return ANYNET_NCCL_INTERNAL_ERROR;
	return (int)calls->isend_v5(scomm, s->data, (int)s->bytes, s->tag, s->mhandle, req);
}

static int irecv_v5(const struct driver_calls *calls, void *rcomm, const struct driver_recv *r,
		    void **req)
{
	int narrow[RECEIVES_MAX];

	if (r->n > RECEIVES_MAX)
		return ANYNET_NCCL_INTERNAL_ERROR;
	for (int i = 0; i < r->n; i++) {
		if (r->bytes[i] > SHIM_MESSAGE_MAX)
			return ANYNET_NCCL_INTERNAL_ERROR;
		narrow[i] = (int)r->bytes[i];
	}
	if (*req == ANYNET_NCCL_OPTIONAL_COMPLETION)
		*req = NULL;
	return (int)calls->irecv_v5(rcomm, r->n, r->data, narrow, r->tags, r->mhandles, req);
}

int driver_irecv(struct driver_net *net, void *rcomm, const struct driver_recv *r, void **req)
{
	const struct driver_calls *calls = &net->calls;

	if (calls->irecv_v10)
		return (int)calls->irecv_v10(rcomm, r->n, r->data, r->bytes, r->tags, r->mhandles,
					     r->phandles, req);
	if (calls->irecv_v9)
		return (int)calls->irecv_v9(rcomm, r->n, r->data, r->bytes, r->tags, r->mhandles,
					    req);
	return irecv_v5(calls, rcomm, r, req);
}

int driver_iflush(struct driver_net *net, void *rcomm, const struct driver_flush *f, void **req)
{
	if (!net->calls.iflush)
		return ANYNET_NCCL_INVALID_USAGE;
	return (int)net->calls.iflush(rcomm, f->n, f->data, f->bytes, f->mhandles, req);
}

int driver_test(struct driver_net *net, void *req, int *done, int *sizes)
{
	return (int)net->calls.test(req, done, sizes);
}

int driver_close_send(struct driver_net *net, void *scomm)
{
	return (int)net->calls.close_send(scomm);
}

int driver_close_recv(struct driver_net *net, void *rcomm)
{
	return (int)net->calls.close_recv(rcomm);
}

int driver_close_listen(struct driver_net *net, void *listener)
{
	return (int)net->calls.close_listen(listener);
}

int driver_finalize(struct driver_net *net, void *ctx)
{
	return net->calls.finalize ? (int)net->calls.finalize(ctx) : 0;
}

int driver_make_vdevice(struct driver_net *net, int *dev, int count, const int *devs)
{
	struct anynet_net_vprops_v9 narrow = { .count = count };
	struct anynet_net_vprops_v12 wide = { .count = count };
	bool is_wide = net->calls.make_vdevice_v12;
	int most = is_wide ? 8 : 4;

	if ((!is_wide && !net->calls.make_vdevice_v9) || count < 0 || count > most)
		return ANYNET_NCCL_INVALID_USAGE;
	memcpy(is_wide ? wide.devs : narrow.devs, devs, (size_t)count * sizeof(*devs));
	return is_wide ? (int)net->calls.make_vdevice_v12(dev, &wide)
		       : (int)net->calls.make_vdevice_v9(dev, &narrow);
}
