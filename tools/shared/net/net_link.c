/* SPDX-License-Identifier: Apache-2.0 */
/* Links: set-up by repeated calls, and the calls of the progress loop. */
#include "net_link.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#define PTR_HOST        0x1
#define TRAFFIC_UNSET   (-1)
#define LEVEL_WARN      2
#define LEVEL_INFO      3
#define LAST_WARN_BYTES 1024

static const char *result_text(int result)
{
	static const char *const texts[] = {
		"success",          "unhandled CUDA error", "system error", "internal error",
		"invalid argument", "invalid usage",        "remote error", "in progress",
	};

	if (result < 0 || (size_t)result >= sizeof(texts) / sizeof(texts[0]))
		return "unknown result";
	return texts[result];
}

/*
 * Log lines of the net. The ranks of a host log the same lines at init, so only the first one
 * prints them. The others keep their last warning, and print it if init fails.
 */
static struct {
	const struct group *group;
	int level;
	bool quiet;
	char last_warning[LAST_WARN_BYTES];
} logger;

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt,
		     ...) __attribute__((format(printf, 5, 6)));

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt,
		     ...)
{
	const char *word = level == LEVEL_WARN ? "WARN" : level == LEVEL_INFO ? "INFO" : "";
	char text[1024];
	va_list ap;

	(void)flags;
	(void)file;
	(void)line;
	if (level > logger.level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (logger.quiet) {
		if (level == LEVEL_WARN)
			snprintf(logger.last_warning, sizeof(logger.last_warning), "%s", text);
		return;
	}
	fflush(stdout);
	fprintf(stderr, "# rank %d %s %s\n", logger.group->rank, word, text);
}

/* As NCCL_DEBUG in NCCL, but warnings are printed by default. */
static int log_level(void)
{
	static const char *const names[] = { "", "VERSION", "WARN", "INFO", "ABORT", "TRACE" };
	const char *value = getenv("NCCL_DEBUG");

	for (int i = LEVEL_INFO; value && i < (int)(sizeof(names) / sizeof(names[0])); i++) {
		if (!strcasecmp(value, names[i]))
			return i;
	}
	return LEVEL_WARN;
}

static int fail(const struct endpoint *ep, const char *call, int result)
{
	group_say_once(ep->group, "%s of %s: %s (%d)", call, driver_path(ep->net),
		       result_text(result), result);
	return -GROUP_ERROR;
}

static int endpoint_init(struct endpoint *ep)
{
	int result, count = 0;

	result = driver_init(ep->net, &ep->ctx, 0, TRAFFIC_UNSET, log_line, NULL);
	if (result) { /* without finalize */
		fail(ep, "init", result);
		driver_close(ep->net);
		ep->net = NULL;
		return -GROUP_ERROR;
	}
	result = driver_devices(ep->net, &count);
	if (result)
		return fail(ep, "devices", result);
	if (!count)
		group_say_once(ep->group, "%s: %s finds no device on this host",
			       driver_path(ep->net), driver_name(ep->net));
	else if (ep->dev >= count)
		group_say_once(ep->group, "%s: %s has devices 0 to %d, but device %d is requested",
			       driver_path(ep->net), driver_name(ep->net), count - 1, ep->dev);
	if (ep->dev >= count)
		return -GROUP_ERROR;
	result = driver_properties(ep->net, ep->dev, &ep->props);
	return result ? fail(ep, "getProperties", result) : 0;
}

int endpoint_open(struct endpoint *ep, struct group *g, const char *spec, int abi, int dev)
{
	char err[400] = "";
	int ret;

	*ep = (struct endpoint){ .group = g, .dev = dev };
	ep->net = driver_open(spec, abi, err, sizeof(err));
	if (!ep->net) {
		group_say_once(g, "%s", err);
		return -GROUP_ERROR;
	}
	logger.group = g;
	logger.level = log_level();
	logger.quiet = g->say || g->rank > g->first;
	ret = endpoint_init(ep);
	logger.quiet = g->say;
	if (ret && logger.last_warning[0])
		group_say(g, "%s", endpoint_warning());
	if (ret)
		endpoint_close(ep);
	return ret;
}

const char *endpoint_warning(void)
{
	static char text[LAST_WARN_BYTES];

	memcpy(text, logger.last_warning, sizeof(text));
	logger.last_warning[0] = '\0';
	return text;
}

void endpoint_close(struct endpoint *ep)
{
	if (!ep->net)
		return;
	driver_finalize(ep->net, ep->ctx);
	driver_close(ep->net);
	ep->net = NULL;
}

static int link_fail(const struct link *l, const char *call, int result)
{
	group_say(l->ep->group, "%s %s rank %d over %s: %s (%d)", call, l->is_send ? "to" : "from",
		  l->peer, driver_path(l->ep->net), result_text(result), result);
	return -GROUP_ERROR;
}

static int link_listen(struct link *l)
{
	int result;

	result = driver_listen(l->ep->net, l->ep->ctx, l->ep->dev, l->slot->handle, &l->listener);
	if (result)
		return link_fail(l, "listen", result);
	l->slot->sender = l->peer;
	atomic_store_explicit(&l->slot->ready, 1, memory_order_release);
	return 0;
}

static int link_connect(struct link *l)
{
	int result;

	if (!l->has_handle) {
		if (!atomic_load_explicit(&l->slot->ready, memory_order_acquire))
			return 0;
		memcpy(l->handle, l->slot->handle, sizeof(l->handle));
		l->has_handle = true;
	}
	result = driver_connect(l->ep->net, l->ep->ctx, l->ep->dev, l->handle, &l->comm);
	if (result)
		return link_fail(l, "connect", result);
	return l->comm != NULL;
}

static int link_accept(struct link *l)
{
	int result = driver_accept(l->ep->net, l->listener, &l->comm);

	if (result)
		return link_fail(l, "accept", result);
	if (!l->comm)
		return 0;
	result = driver_close_listen(l->ep->net, l->listener);
	l->listener = NULL;
	return result ? link_fail(l, "closeListen", result) : 1;
}

static int connect_all(struct link *links, int count)
{
	struct group *g = links[0].ep->group;
	int missing = count, ret;

	while (missing) {
		bool moved = false;

		for (int i = 0; i < count; i++) {
			struct link *l = &links[i];

			if (l->comm)
				continue;
			ret = l->is_send ? link_connect(l) : link_accept(l);
			if (ret < 0)
				return ret;
			missing -= ret;
			moved |= ret > 0;
		}
		if (moved)
			group_fed(g);
		else if (group_idle(g))
			return -GROUP_ERROR;
	}
	return 0;
}

int links_listen(struct link *links, int count)
{
	for (int i = 0; i < count; i++) {
		int ret = links[i].is_send || links[i].listener ? 0 : link_listen(&links[i]);

		if (ret)
			return ret;
	}
	return 0;
}

int links_connect(struct link *links, int count)
{
	int ret = links_listen(links, count);

	return ret || !count ? ret : connect_all(links, count);
}

static size_t buffer_bytes(size_t step_bytes)
{
	return LINK_STEPS * step_bytes;
}

int links_register(struct link *links, int count, size_t step_bytes)
{
	size_t each = buffer_bytes(step_bytes);
	char *pool;
	int result;

	if (!count)
		return 0;
	pool = mmap(NULL, (size_t)count * each, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pool == MAP_FAILED) {
		group_say(links[0].ep->group, "out of memory: buffers of %zu bytes",
			  (size_t)count * each);
		return -GROUP_ERROR;
	}
	for (int i = 0; i < count; i++) {
		links[i].buffer = pool + (size_t)i * each;
		links[i].step_bytes = step_bytes;
	}
	for (int i = 0; i < count; i++) {
		struct link *l = &links[i];

		result = driver_reg_mr(l->ep->net, l->comm, l->buffer, each, PTR_HOST, &l->mhandle);
		if (result)
			return link_fail(l, "regMr", result);
		l->registered = true;
	}
	return 0;
}

static void link_close(struct link *l)
{
	struct driver_net *net = l->ep->net;

	if (l->registered)
		driver_dereg_mr(net, l->comm, l->mhandle);
	l->registered = false;
	if (l->comm && l->is_send)
		driver_close_send(net, l->comm);
	else if (l->comm)
		driver_close_recv(net, l->comm);
	if (l->listener)
		driver_close_listen(net, l->listener);
	l->comm = l->listener = NULL;
}

void links_close(struct link *links, int count)
{
	for (int i = 0; i < count; i++)
		link_close(&links[i]);
	if (count && links[0].buffer)
		munmap(links[0].buffer, (size_t)count * buffer_bytes(links[0].step_bytes));
	for (int i = 0; i < count; i++)
		links[i].buffer = NULL;
}

int link_post(struct link *l, size_t bytes)
{
	int tag = l->is_send ? l->ep->group->rank : l->peer;
	void *data = link_slot_data(l, l->posted);
	void *req = NULL;
	int result;

	if (l->is_send)
		result = driver_isend(l->ep->net, l->comm,
				      &(struct driver_send){ data, bytes, tag, l->mhandle, NULL },
				      &req);
	else
		result = driver_irecv(l->ep->net, l->comm,
				      &(struct driver_recv){ 1, &data, &bytes, &tag, &l->mhandle,
							     NULL },
				      &req);
	if (result)
		return link_fail(l, l->is_send ? "isend" : "irecv", result);
	if (!req)
		return 0;
	l->requests[l->posted++ % LINK_STEPS] = req;
	return 1;
}

int link_test(struct link *l)
{
	uint64_t slot = l->done % LINK_STEPS;
	int done = 0, result;

	result = driver_test(l->ep->net, l->requests[slot], &done, &l->sizes[slot]);
	if (result)
		return link_fail(l, l->is_send ? "sending" : "receiving", result);
	l->done += done != 0;
	return done != 0;
}

int link_expect(const struct link *l, uint64_t index, size_t bytes)
{
	if (link_size(l, index) == bytes)
		return 0;
	group_say(l->ep->group, "message %" PRIu64 " from rank %d has %zu bytes instead of %zu",
		  index, l->peer, link_size(l, index), bytes);
	return -GROUP_ERROR;
}
