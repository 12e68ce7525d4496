/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's state in this process; see core.h. */
#include "core.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/log.h>
#include <nccl_net/wire.h>

#include "fused.h"
#include "selector.h"

#define ABI_WITH_CONTEXTS 11
#define CORE_LOCK_YIELDS  100 /* then a waiting thread sleeps between its tries */

struct anynet_context {
	TAILQ_ENTRY(anynet_context) link;
	anynet_nccl_logger logger; /* tells which NCCL in this process has opened it */
	struct anynet_connect_options options;
};

/*
 * This state survives when NCCL unloads and reloads the plugin (-z nodelete). So probing happens once, and the first
 * init after a reload finds it done. `lock` protects the fields below it that are not atomic. Once `starter` is set, `cfg`
 * and `probe` are constant and may be read without the lock.
 */
static struct {
	_Atomic unsigned lock; /* this_process() of the holder; 0 = free */
	_Atomic unsigned opener; /* process that created the first listener or comm; 0 = none */
	struct anynet_config cfg;
	struct anynet_probe probe;
	_Atomic unsigned starter; /* process in which anynet_net_start ran last; 0 = none */
	anynet_nccl_logger logger;
	anynet_nccl_profiler profiler; /* of the first NCCL that has one */
	bool two_profilers;            /* another NCCL has another one */
	bool two_nccls;                /* another NCCL in this process has called init */
	int nccl_version;              /* 0 = not found */
	TAILQ_HEAD(, anynet_context) contexts;
} core = { .contexts = TAILQ_HEAD_INITIALIZER(core.contexts) };

/* The number of this process among its parents, from 1. */
static unsigned this_process(void)
{
	return anynet_net_forks() + 1;
}

/* A mutex that another thread held at the time of a fork stays locked in the child. This lock stores its holder's
 * process, so the child takes it over. It is taken rarely, and is held for more than a moment only while the first init
 * probes the host and reads the secret. */
static void core_lock(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned self = this_process();

	for (unsigned tries = 0;; tries++) {
		unsigned holder = 0;

		if (atomic_compare_exchange_strong(&core.lock, &holder, self))
			return;
		if (holder != self && atomic_compare_exchange_strong(&core.lock, &holder, self))
			return;
		if (tries < CORE_LOCK_YIELDS)
			sched_yield();
		else
			nanosleep(&pause, NULL);
	}
}

static void core_unlock(void)
{
	atomic_store(&core.lock, 0);
}

static void ask_version(void *nccl, const char *path)
{
	const void *symbol = dlsym(nccl, "ncclGetVersion");
	int (*get_version)(int *version);

	memcpy(&get_version, &symbol, sizeof(get_version));
	if (symbol && get_version(&core.nccl_version) == ANYNET_NCCL_SUCCESS)
		anynet_net_set_nccl(core.nccl_version, path);
}

/* Find NCCL by the address of its logger: NCCL may be linked into a framework's library that was loaded with
 * RTLD_LOCAL, where dlsym(RTLD_DEFAULT) does not find it. That library stays loaded until the process ends, because the
 * plugin's threads may call the logger at any time. */
static void hold_nccl(anynet_nccl_logger logger)
{
	const void *symbol = NULL;
	Dl_info info;
	void *lib;

	memcpy(&symbol, &logger, sizeof(symbol));
	if (!dladdr(symbol, &info) || !info.dli_fname)
		return;
	lib = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	if (!core.nccl_version) /* with two NCCLs in the process, the first counts */
		ask_version(lib ? lib : RTLD_DEFAULT, info.dli_fname);
	if (lib)
		dlclose(lib);
}

/* `anynet check` searches a file for this text instead of loading it. */
#define DIGITS_OF(macro) DIGITS(macro)
#define DIGITS(number)   #number
__attribute__((used)) static const char identity[] =
	"anynet plugin " ANYNET_VERSION " wire " DIGITS_OF(ANYNET_WIRE_VERSION);

/* Log which libnccl-net.so this is and under which name NCCL sees it. */
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

/* With the core lock. */
static void take_logger(int abi, anynet_nccl_logger logger)
{
	if (logger && logger != core.logger) {
		core.two_nccls |= core.logger != NULL;
		core.logger = logger;
		hold_nccl(logger);
		anynet_log_set_sink(logger);
		announce(abi);
	}
}

/* With the core lock and the settings. A profiler understands the handles of its own NCCL only, and a handle does not
 * tell whose it is: with two of them there are no events. */
static void take_profiler(anynet_nccl_profiler profiler)
{
	if (!profiler || profiler == core.profiler || core.two_profilers)
		return;
	core.two_profilers = core.profiler != NULL;
	core.profiler = profiler;
	anynet_net_set_profiler(core.two_profilers ? NULL : profiler);
	if (core.two_profilers && core.cfg.profile)
		anynet_info("two NCCLs in this process have profilers: no network events are reported");
}

/* With the core lock. */
static void start(void)
{
	unsigned self = this_process();

	if (!core.starter) {
		anynet_config_load(&core.cfg, NULL);
		snprintf(core.cfg.net, sizeof(core.cfg.net), "%s", anynet_selector_name());
		anynet_selector_run(anynet_selector_name(), &core.cfg, &core.probe);
	}
	if (core.starter != self && !anynet_core_is_forked()) {
		anynet_net_start(&core.cfg, core.probe.devices, core.probe.device_count);
		core.starter = self; /* last: others read without the lock what is set above */
	}
}

/* With the core lock. Is this the first init since this NCCL loaded the plugin? Before v11 every init is. From v11 on
 * NCCL calls init for each communicator, and unloads the plugin only when none is left. `abi` 0: the plugin's own
 * call. */
static bool is_beginning(int abi, anynet_nccl_logger logger)
{
	struct anynet_context *ctx;

	if (abi < ABI_WITH_CONTEXTS)
		return abi > 0;
	TAILQ_FOREACH (ctx, &core.contexts, link)
		if (ctx->logger == logger)
			return false;
	return true;
}

void anynet_core_init(int abi, anynet_nccl_logger logger, anynet_nccl_profiler profiler)
{
	core_lock();
	take_logger(abi, logger);
	if (is_beginning(abi, logger))
		fused_restart(core.two_nccls);
	start();
	take_profiler(profiler);
	core_unlock();
}

/* NCCL 2.22 and 2.23 may use a freshly loaded library without an init. */
static void ensure_started(void)
{
	if (anynet_likely(atomic_load_explicit(&core.starter, memory_order_acquire)))
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
		anynet_warn(
			"%s: no device %d, there are %d; NCCL gets an error; `anynet devices` lists "
			"them",
			what, index, count);
	return dev;
}

int anynet_core_fuse(const int *indices, int count, int most)
{
	int ret;

	ensure_started();
	core_lock();
	ret = fused_make(&core.cfg, core.probe.devices, core.probe.device_count, indices, count,
			 most);
	core_unlock();
	return ret;
}

struct anynet_context *anynet_core_context_open(anynet_nccl_logger logger, uint64_t comm_hash,
						int traffic_class)
{
	struct anynet_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->logger = logger;
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
	if (known && !anynet_core_is_forked())
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
	unsigned opener = atomic_load_explicit(&core.opener, memory_order_relaxed);

	return opener && opener != this_process();
}

bool anynet_core_may_open(void)
{
	static _Atomic unsigned warned;
	unsigned self = this_process(), opener = 0;

	ensure_started();
	if (atomic_compare_exchange_strong(&core.opener, &opener, self) || opener == self) {
		if (anynet_unlikely(core.starter != self)) /* forked before anything was opened */
			anynet_core_init(0, NULL, NULL);
		return true;
	}
	if (atomic_exchange(&warned, self) != self)
		anynet_warn("process %d was forked while connections were open: its network calls "
			    "fail; start workers with exec (spawn), or fork before NCCL starts",
			    (int)getpid());
	return false;
}

enum anynet_nccl_result anynet_core_error(int err)
{
	switch (-err) {
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
