/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's single instance; see core.h. */
#include "core.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include <nccl_net/log.h>
#include <nccl_net/wire.h>

#include "fused.h"
#include "selector.h"

#define ABI_WITH_CONTEXTS 11

struct anynet_context {
	TAILQ_ENTRY(anynet_context) link;
	struct anynet_connect_options options;
};

/*
 * NCCL may unload and reload us, and this state stays (-z nodelete): so it only ever grows towards
 * "probed", and a second first init finds it done. Everything below `lock` belongs to its holder,
 * except that `cfg` and `probe` are read-only, for everybody, once `probed` is seen true.
 */
static struct {
	_Atomic pid_t lock; /* holder's process; 0 = free */
	atomic_bool probed;
	_Atomic pid_t opener; /* process that made the first listener or comm; 0 = none */
	struct anynet_config cfg;
	struct anynet_probe probe;
	_Atomic pid_t pid; /* process the message layer was started in */
	anynet_nccl_logger logger;
	anynet_nccl_profiler profiler;
	int nccl_version; /* 0 = not found (yet) */
	TAILQ_HEAD(, anynet_context) contexts;
} core = { .contexts = TAILQ_HEAD_INITIALIZER(core.contexts) };

/* A mutex that another thread held when this process was forked stays locked for ever. This lock is
 * taken for a millisecond at a time, once in a job, so it may spin, and knows a dead holder. */
static void core_lock(void)
{
	pid_t self = getpid();

	for (;;) {
		pid_t holder = 0;

		if (atomic_compare_exchange_strong(&core.lock, &holder, self))
			return;
		if (holder != self && atomic_compare_exchange_strong(&core.lock, &holder, self))
			return;
		sched_yield();
	}
}

static void core_unlock(void)
{
	atomic_store(&core.lock, 0);
}

/* NCCL itself, found by the logger it gave us: it may be libnccl.so.2, or linked into a framework's
 * library that was loaded privately, where a plain dlsym does not see it. Returns its version code,
 * 0 = not found. */
static int find_nccl(anynet_nccl_logger logger)
{
	const void *symbol = NULL;
	int (*get_version)(int *version);
	int version = 0;
	Dl_info info;
	void *lib;

	memcpy(&symbol, &logger, sizeof(symbol));
	if (!dladdr(symbol, &info) || !info.dli_fname)
		return 0;
	lib = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	symbol = dlsym(lib ? lib : RTLD_DEFAULT, "ncclGetVersion");
	memcpy(&get_version, &symbol, sizeof(get_version));
	if (symbol && get_version(&version) == ANYNET_NCCL_SUCCESS)
		anynet_net_set_nccl(version, info.dli_fname);
	if (lib)
		dlclose(lib);
	return version;
}

/* By this `anynet check` knows the file without loading it. */
#define DIGITS_OF(macro) DIGITS(macro)
#define DIGITS(number)   #number
__attribute__((used)) static const char identity[] =
	"anynet plugin " ANYNET_VERSION " wire " DIGITS_OF(ANYNET_WIRE_VERSION);

/* The line users look for: which of the files called libnccl-net.so it is, and under which name. */
static void announce(int abi)
{
	char nccl[32] = "unknown";
	char *path = NULL;
	Dl_info info;

	if (dladdr(&core, &info) && info.dli_fname)
		path = realpath(info.dli_fname, NULL);
	if (core.nccl_version)
		snprintf(nccl, sizeof(nccl), "%d", core.nccl_version);
	anynet_info("version " ANYNET_VERSION
		    " file %s presented as %s net api v%d wire %d nccl %s",
		    path ? path : "(path unknown)", anynet_selector_name(), abi,
		    ANYNET_WIRE_VERSION, nccl);
	free(path);
}

/* Under the lock. */
static void take_callbacks(int abi, anynet_nccl_logger logger, anynet_nccl_profiler profiler)
{
	if (logger && logger != core.logger) {
		core.logger = logger;
		anynet_log_set_sink(logger);
		if (!core.nccl_version) /* of two in one process, the first */
			core.nccl_version = find_nccl(logger);
		announce(abi);
	}
	if (profiler)
		core.profiler = profiler;
}

/* Under the lock. */
static void start(void)
{
	pid_t self = getpid();

	if (!atomic_load(&core.probed)) {
		memset(&core.probe, 0, sizeof(core.probe));
		anynet_config_load(&core.cfg, NULL);
		anynet_selector_run(&core.cfg, &core.probe);
		for (int i = 0; i < core.probe.device_count; i++)
			core.probe.devices[i].index = i;
	}
	if (core.pid != self && !anynet_core_is_forked()) {
		anynet_net_start(&core.cfg, core.probe.devices, core.probe.device_count);
		anynet_net_set_name(anynet_selector_name());
		core.pid = self;
	}
	atomic_store(&core.probed, true);
}

/* Under the lock. Does NCCL begin, or begin anew after it has unloaded us? Before v11 it calls init then
 * and never else; from v11 on once per communicator, of which none is left when it unloads. */
static bool is_beginning(int abi)
{
	return abi >= ABI_WITH_CONTEXTS ? TAILQ_EMPTY(&core.contexts) : abi > 0;
}

void anynet_core_init(int abi, anynet_nccl_logger logger, anynet_nccl_profiler profiler)
{
	anynet_nccl_profiler known;

	core_lock();
	if (is_beginning(abi))
		fused_restart();
	known = core.profiler;
	take_callbacks(abi, logger, profiler);
	start();
	if (core.profiler != known)
		anynet_net_set_profiler(core.profiler);
	core_unlock();
}

/* NCCL 2.22 and 2.23 may use a freshly loaded library without an init. */
static void ensure_started(void)
{
	if (anynet_likely(atomic_load_explicit(&core.probed, memory_order_acquire)))
		return;
	core_lock();
	start();
	core_unlock();
}

int anynet_core_devices(void)
{
	ensure_started();
	return core.probe.device_count + fused_count();
}

const struct anynet_device *anynet_core_device(int index, const char *what)
{
	int count = anynet_core_devices(), nics = core.probe.device_count;
	const struct anynet_device *dev = NULL;

	if (anynet_likely(index >= 0 && index < nics))
		return &core.probe.devices[index];
	if (index >= nics)
		dev = fused_at(index - nics);
	if (!dev)
		anynet_warn("%s: no device %d, there are %d", what, index, count);
	return dev;
}

int anynet_core_fuse(const int *indices, int count)
{
	int ret;

	ensure_started();
	core_lock();
	ret = fused_make(&core.cfg, core.probe.devices, core.probe.device_count, indices, count);
	core_unlock();
	return ret;
}

struct anynet_context *anynet_core_context_open(uint64_t comm_hash, int traffic_class)
{
	struct anynet_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->options.comm_hash = comm_hash;
	ctx->options.traffic_class = traffic_class;
	ctx->options.owner = ctx;
	core_lock();
	TAILQ_INSERT_TAIL(&core.contexts, ctx, link);
	core_unlock();
	return ctx;
}

void anynet_core_context_close(struct anynet_context *ctx)
{
	struct anynet_context *known;

	core_lock();
	TAILQ_FOREACH (known, &core.contexts, link)
		if (known == ctx)
			break;
	if (known)
		TAILQ_REMOVE(&core.contexts, known, link);
	core_unlock();
	if (known && atomic_load(&core.probed) && !anynet_core_is_forked())
		anynet_net_trim(known);
	free(known);
}

struct anynet_connect_options anynet_core_options(const struct anynet_context *ctx)
{
	if (ctx)
		return ctx->options;
	return (struct anynet_connect_options){ .traffic_class = ANYNET_NCCL_UNSET };
}

bool anynet_core_is_forked(void)
{
	pid_t opener = atomic_load_explicit(&core.opener, memory_order_relaxed);

	return opener && opener != getpid();
}

bool anynet_core_may_open(void)
{
	static _Atomic pid_t warned;
	pid_t self = getpid(), opener = 0;

	ensure_started();
	if (atomic_compare_exchange_strong(&core.opener, &opener, self) || opener == self) {
		if (anynet_unlikely(core.pid != self)) /* a child, the first to open */
			anynet_core_init(0, NULL, NULL);
		return true;
	}
	if (atomic_exchange(&warned, self) != self)
		anynet_warn("process %d was forked from %d while connections were open: its "
			    "network calls fail; start workers with exec (spawn), or fork before "
			    "NCCL starts",
			    (int)self, (int)opener);
	return false;
}

enum anynet_nccl_result anynet_core_result(int err)
{
	switch (-err) {
	case 0:
	case EAGAIN:
		return ANYNET_NCCL_SUCCESS;
	case EINVAL:
		return ANYNET_NCCL_INVALID_ARGUMENT;
	case EMSGSIZE:
	case EPROTO:
		return ANYNET_NCCL_INVALID_USAGE;
	case EOPNOTSUPP:
	case EBADMSG:
		return ANYNET_NCCL_INTERNAL_ERROR;
	case ECONNABORTED:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENETUNREACH:
	case ENOTCONN:
	case EPIPE:
	case ETIMEDOUT:
		return ANYNET_NCCL_REMOTE_ERROR;
	default:
		return ANYNET_NCCL_SYSTEM_ERROR;
	}
}
