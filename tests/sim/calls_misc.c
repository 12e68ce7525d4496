/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for libc functions: clock, random numbers, identity of process and host, handlers, libraries. */
#include "sim/calls.h"
#include "sim/load.h"
#include "sim/net.h"
#include "sim/verbs.h"

#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define PROCESSORS 8

/* All clocks are the simulated one. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	REAL(clock_gettime, int, clockid_t, struct timespec *);
	if (!process_self())
		return real(clock, time);
	time->tv_sec = (time_t)(sim_now / SIM_S);
	time->tv_nsec = (long)(sim_now % SIM_S);
	return 0;
}

ssize_t getrandom(void *data, size_t bytes, unsigned flags)
{
	static struct sim_random random = { 77 };

	REAL(getrandom, ssize_t, void *, size_t, unsigned);
	if (!process_self())
		return real(data, bytes, flags);
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)data)[i] = (uint8_t)(random_next(&random) >> 24);
	return (ssize_t)bytes;
}

pid_t getpid(void)
{
	REAL(getpid, pid_t, void);
	return process_self() ? process_self()->pid : real();
}

uid_t geteuid(void)
{
	return 0;
}

int uname(struct utsname *names)
{
	REAL(uname, int, struct utsname *);
	if (!process_self())
		return real(names);
	memset(names, 0, sizeof(*names));
	snprintf(names->nodename, sizeof(names->nodename), "%s", process_self()->host->name);
	return 0;
}

char *getenv(const char *name)
{
	struct sim_process *process = process_self();
	size_t length = strlen(name);

	REAL(getenv, char *, const char *);
	if (!process)
		return real(name);
	for (int i = 0; i < PROCESS_ENV_MAX && process->env[i]; i++)
		if (!strncmp(process->env[i], name, length) && process->env[i][length] == '=')
			return (char *)(uintptr_t)(process->env[i] + length + 1);
	return NULL;
}

long sysconf(int name)
{
	REAL(sysconf, long, int);
	if (process_self() && name == _SC_NPROCESSORS_ONLN)
		return PROCESSORS;
	return real(name);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	REAL(getrlimit, int, __rlimit_resource_t, struct rlimit *);
	if (!process_self())
		return real(resource, limit);
	limit->rlim_cur = limit->rlim_max = resource == RLIMIT_NOFILE ? PROCESS_FDS_MAX : RLIM_INFINITY;
	return 0;
}

unsigned if_nametoindex(const char *name)
{
	unsigned nic;

	REAL(if_nametoindex, unsigned, const char *);
	if (!process_self())
		return real(name);
	return sscanf(name, "eth%u", &nic) == 1 && nic < process_self()->host->nics ? nic + 2 : 0;
}

/* The system calls of the plugin that have no function in glibc 2.28. */
long syscall(long number, ...)
{
	va_list args;
	long a[6];

	REAL(syscall, long, long, ...);
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!process_self())
		return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	RETURN(long, -ENOSYS);
}

/* --- handlers --- */

static void add_handler(struct sim_handlers *handlers, void (*run)(void *), void *arg)
{
	struct sim_handler *handler = malloc(sizeof(*handler));

	if (!handler)
		abort();
	handler->run = run;
	handler->arg = arg;
	TAILQ_INSERT_HEAD(handlers, handler, link);
}

int __cxa_atexit(void (*run)(void *), void *arg, void *library);
int __cxa_atexit(void (*run)(void *), void *arg, void *library)
{
	REAL(__cxa_atexit, int, void (*)(void *), void *, void *);
	if (!process_self())
		return real(run, arg, library);
	add_handler(&process_self()->at_exit, run, arg);
	return 0;
}

/* The handlers ignore the extra argument, which the calling convention permits. */
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *library);
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *library)
{
	void (*run)(void *);

	REAL(__register_atfork, int, void (*)(void), void (*)(void), void (*)(void), void *);
	if (!process_self())
		return real(before, parent, child, library);
	memcpy(&run, &child, sizeof(run));
	if (child)
		add_handler(&process_self()->in_child, run, NULL);
	return 0;
}

int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork(before, parent, child, NULL);
}

/* --- libraries: only copies of the plugin and of libibverbs exist --- */

void *dlopen(const char *name, int flags)
{
	REAL(dlopen, void *, const char *, int);
	if (process_self() && name && !strcmp(name, "libibverbs.so.1"))
		name = verbs_library(process_self());
	if (!process_self() || (name && load_is_copy(name)))
		return real(name, flags);
	return NULL;
}

char *dlerror(void)
{
	static char none[] = "no such library in the simulation";

	REAL(dlerror, char *, void);
	return process_self() ? none : real();
}
