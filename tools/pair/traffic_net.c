/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the plugin; see traffic_net.h. */
#include "traffic_net.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "wire.h"

#define PTR_HOST      0x1
#define TRAFFIC_UNSET (-1)
#define LEVEL_WARN    2

/* The plugin's last warning. Global, because its logger is global to the process. */
static char last_warning[TRAFFIC_ERROR];

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt,
		     ...) __attribute__((format(printf, 5, 6)));

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt,
		     ...)
{
	va_list ap;

	(void)flags;
	(void)file;
	(void)line;
	if (level != LEVEL_WARN)
		return;
	va_start(ap, fmt);
	vsnprintf(last_warning, sizeof(last_warning), fmt, ap);
	va_end(ap);
	/* The text goes into JSON, and may be cut within a UTF-8 character. */
	for (char *c = last_warning; *c; c++)
		*c = (char)(*c & 0x80 ? '?' : *c);
}

/* Reports the last warning since traffic_net_open or traffic_net_connect returned, if there is one. */
static int fail(struct traffic_net *n, const char *call, int result)
{
	if (*last_warning)
		snprintf(n->error, sizeof(n->error), "%s", last_warning);
	else
		snprintf(n->error, sizeof(n->error), "%s failed with ncclResult_t %d", call,
			 result);
	return -1;
}

static int open_device(struct traffic_net *n)
{
	int result, count = 0;

	result = driver_init(n->net, &n->ctx, 0, TRAFFIC_UNSET, log_line, NULL);
	if (result) { /* without finalize */
		fail(n, "init", result);
		driver_close(n->net);
		n->net = NULL;
		return -1;
	}
	result = driver_devices(n->net, &count);
	if (result)
		return fail(n, "devices", result);
	if (n->dev >= count) {
		snprintf(n->error, sizeof(n->error), "there is no device %d: %s offers %d here",
			 n->dev, driver_name(n->net), count);
		return -1;
	}
	result = driver_properties(n->net, n->dev, &n->props);
	if (result)
		return fail(n, "getProperties", result);
	*last_warning = '\0';
	return 0;
}

static int get_memory(struct traffic_net *n)
{
	size_t each = (size_t)TRAFFIC_STEPS * TRAFFIC_STEP;

	n->memory_bytes = 2 * (size_t)n->channels * each;
	n->memory = mmap(NULL, n->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (n->memory == MAP_FAILED) {
		n->memory = NULL;
		snprintf(n->error, sizeof(n->error), "no memory for buffers");
		return -1;
	}
	for (int i = 0; i < n->channels; i++) {
		n->out[i].is_send = true;
		n->out[i].data = n->memory + (size_t)(2 * i) * each;
		n->in[i].data = n->memory + (size_t)(2 * i + 1) * each;
	}
	return 0;
}

int traffic_net_open(struct traffic_net *n, const char *plugin, int dev, int channels)
{
	*n = (struct traffic_net){ .dev = dev, .channels = channels };
	n->net = driver_open(plugin, DRIVER_ABI_NEWEST, n->error, sizeof(n->error));
	if (!n->net || open_device(n) || get_memory(n))
		return -1;
	for (int i = 0; i < channels; i++) {
		int result =
			driver_listen(n->net, n->ctx, dev, n->in[i].handle, &n->in[i].listener);

		if (result)
			return fail(n, "listen", result);
	}
	return 0;
}

static int connect_step(struct traffic_net *n, struct traffic_line *l)
{
	int result;

	if (l->comm)
		return 1;
	result = l->is_send ? driver_connect(n->net, n->ctx, n->dev, l->handle, &l->comm)
			    : driver_accept(n->net, l->listener, &l->comm);
	if (result)
		return fail(n, l->is_send ? "connect" : "accept", result);
	if (!l->comm)
		return 0;
	result = driver_reg_mr(n->net, l->comm, l->data, (size_t)TRAFFIC_STEPS * TRAFFIC_STEP,
			       PTR_HOST, &l->mhandle);
	return result ? fail(n, "regMr", result) : 1;
}

int traffic_net_connect(struct traffic_net *n, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	int missing;

	do {
		missing = 0;
		for (int i = 0; i < n->channels; i++) {
			int out = connect_step(n, &n->out[i]), in = connect_step(n, &n->in[i]);

			if (out < 0 || in < 0)
				return -1;
			missing += !out + !in;
		}
		if (missing && now_ms() > end) {
			snprintf(n->error, sizeof(n->error),
				 "%d of %d connections were not established within %d s%s%.500s",
				 missing, 2 * n->channels, ms / 1000, *last_warning ? "; " : "",
				 last_warning);
			return -1;
		}
		sched_yield();
	} while (missing);
	*last_warning = '\0';
	return 0;
}

int traffic_post(struct traffic_net *n, struct traffic_line *l, size_t bytes)
{
	void *data = l->data + (l->posted % TRAFFIC_STEPS) * TRAFFIC_STEP, *req = NULL;
	int tag = 0, result;

	if (l->posted - l->done == TRAFFIC_STEPS)
		return 0;
	if (l->is_send)
		result = driver_isend(n->net, l->comm,
				      &(struct driver_send){ data, bytes, tag, l->mhandle, NULL },
				      &req);
	else
		result = driver_irecv(n->net, l->comm,
				      &(struct driver_recv){ 1, &data, &bytes, &tag, &l->mhandle,
							     NULL },
				      &req);
	if (result)
		return fail(n, l->is_send ? "isend" : "irecv", result);
	if (!req)
		return 0;
	l->requests[l->posted++ % TRAFFIC_STEPS] = req;
	return 1;
}

int traffic_test(struct traffic_net *n, struct traffic_line *l, int *size)
{
	uint64_t slot = l->done % TRAFFIC_STEPS;
	int done = 0, result;

	if (l->done == l->posted)
		return 0;
	result = driver_test(n->net, l->requests[slot], &done, &l->sizes[slot]);
	if (result)
		return fail(n, l->is_send ? "sending" : "receiving", result);
	if (!done)
		return 0;
	*size = l->sizes[slot];
	l->done++;
	return 1;
}

static void close_line(struct traffic_net *n, struct traffic_line *l)
{
	if (l->mhandle)
		driver_dereg_mr(n->net, l->comm, l->mhandle);
	if (l->comm && l->is_send)
		driver_close_send(n->net, l->comm);
	else if (l->comm)
		driver_close_recv(n->net, l->comm);
	if (l->listener)
		driver_close_listen(n->net, l->listener);
}

void traffic_net_close(struct traffic_net *n)
{
	for (int i = 0; n->net && i < n->channels; i++) {
		close_line(n, &n->out[i]);
		close_line(n, &n->in[i]);
	}
	if (n->net) {
		driver_finalize(n->net, n->ctx);
		driver_close(n->net);
	}
	if (n->memory)
		munmap(n->memory, n->memory_bytes);
}
