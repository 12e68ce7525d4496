/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated processes. Each has its own copy of the plugin, loaded from a separate file, with its own global variables;
 * file descriptors, threads, and handlers for fork and exit.
 */
#ifndef TESTS_SIM_PROCESS_H
#define TESTS_SIM_PROCESS_H

#include "sim/sched.h"

#include <stddef.h>

#define PROCESS_FDS_MAX 65536
#define PROCESS_ENV_MAX 32

/* Calls that can be made to fail. */
enum sim_call {
	CALL_SOCKET,
	CALL_ACCEPT,
	CALL_CONNECT,
	CALL_BIND,
	CALL_SETSOCKOPT,
	CALL_EPOLL_CREATE,
	CALL_EPOLL_CTL,
	CALL_EVENTFD,
	CALL_THREAD,
	CALL_SEND,
	CALL_RECV,
	CALLS
};

struct sim_file;
struct sim_host;
struct sim_adapters;

struct sim_handler {
	void (*run)(void *arg);
	void *arg;
	TAILQ_ENTRY(sim_handler) link;
};
TAILQ_HEAD(sim_handlers, sim_handler);

struct sim_process {
	int pid;
	struct sim_host *host;
	bool dead, stopped;
	struct sim_file **fds;
	int fd_room, fd_open;
	int blocks; /* of memory that the plugin has allocated and not freed */
	const char *env[PROCESS_ENV_MAX]; /* NAME=VALUE */
	struct sim_handlers at_exit, in_child;
	struct sim_waiters poked; /* woken whenever data or an event arrives for the process */
	TAILQ_HEAD(, sim_thread) threads;
	struct sim_waiters held;        /* runnable threads of a stopped process */
	bool is_set_up;                 /* calls may fail only from then on */
	unsigned failing[CALLS];        /* per million calls */
	unsigned shortens;              /* per million: reads and writes move fewer bytes than possible */
	struct sim_process *next_child; /* forked: shares the files, executes nothing */
	struct sim_adapters *adapters;  /* its RDMA NICs (verbs.h); NULL = none */
};

struct sim_process *process_new(struct sim_host *host, int pid);
void process_adopt(struct sim_process *process, struct sim_thread *thread);
bool process_is_stopped(const struct sim_process *process);
void process_hold(struct sim_process *process, struct sim_thread *thread);
void process_stop(struct sim_process *process);
void process_go_on(struct sim_process *process);
void process_poke(struct sim_process *process);

/* The handlers run in the calling thread, which belongs to the process; then it ends. */
_Noreturn void process_exit(struct sim_process *process);
void process_kill(struct sim_process *process);
void process_bury(void); /* frees the threads of dead processes */

/* Creates a child that runs the handlers of pthread_atfork, and then only keeps the files that these leave open. */
struct sim_process *process_fork(struct sim_process *process);

/* The running process; NULL: the simulator itself. */
struct sim_process *process_self(void);
/* Sets the process as which the plugin's constructors run outside of threads. */
void process_act_as(struct sim_process *process);

/* Files. Returns a new descriptor, or -EMFILE. */
int process_fd_new(struct sim_process *process, struct sim_file *file);
struct sim_file *process_file(struct sim_process *process, int fd);
int process_fd_close(struct sim_process *process, int fd);
int process_fd_replace(struct sim_process *process, int from, int to);

/* 0, or the errno with which the call fails. */
int process_call_fails(struct sim_process *process, enum sim_call call);
/* The part of `bytes` that this read or write moves. */
size_t process_shorten(struct sim_process *process, size_t bytes);

/* Reports a violated guarantee and ends the run. */
_Noreturn void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
