/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that occur by number: at the k-th operation of a kind, or at the k-th call of a function. describe.c describes
 * the syntax. */
#include "fake.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULTS_MAX   64
#define VANISHED_MAX 32

enum action {
	STATUS,
	LOSE,
	DROP,
	MUTE,
	CUT,
	GARBLE,
	TEAR,
	OVERTAKE,
	LATE,
	SLOW,
	DELAY,
	PORT_DOWN,
	PORT_UP,
	QP_FATAL,
	DEVICE_DIES,
	KILL,
	CALL,
};

static const char *const actions[] = {
	[STATUS] = "status",
	[LOSE] = "lose",
	[DROP] = "drop",
	[MUTE] = "mute",
	[CUT] = "cut",
	[GARBLE] = "garble",
	[TEAR] = "tear",
	[OVERTAKE] = "overtake",
	[LATE] = "late",
	[SLOW] = "slow",
	[DELAY] = "delay",
	[PORT_DOWN] = "port-down",
	[PORT_UP] = "port-up",
	[QP_FATAL] = "qp-fatal",
	[DEVICE_DIES] = "device-fatal",
	[KILL] = "kill",
	[CALL] = "call",
};

struct fault {
	enum action action;
	char what[NAME_BYTES];   /* kind of operation, or function */
	char device[NAME_BYTES]; /* "" = any */
	unsigned long long nth, count, seen, min, max, status, ms;
};

static struct fault faults[FAULTS_MAX];
static int fault_count;

static struct {
	const struct fake_device *device;
	int port;
	union ibv_gid gid; /* all zero = to all */
	uint32_t lid;
} vanished[VANISHED_MAX];
static int vanished_count;

static __thread unsigned sleep_ms;

void faults_forget(void)
{
	fault_count = vanished_count = 0;
}

static int fault_option(struct fault *fault, const char *word)
{
	char rest;

	if (!strncmp(word, "device=", 7)) {
		snprintf(fault->device, sizeof(fault->device), "%s", word + 7);
		return 0;
	}
	if (sscanf(word, "nth=%llu%c", &fault->nth, &rest) == 1 ||
	    sscanf(word, "count=%llu%c", &fault->count, &rest) == 1 ||
	    sscanf(word, "min=%llu%c", &fault->min, &rest) == 1 ||
	    sscanf(word, "max=%llu%c", &fault->max, &rest) == 1 ||
	    sscanf(word, "status=%llu%c", &fault->status, &rest) == 1 ||
	    sscanf(word, "errno=%llu%c", &fault->status, &rest) == 1 ||
	    sscanf(word, "ms=%llu%c", &fault->ms, &rest) == 1)
		return 0;
	return -EINVAL;
}

int fault_add(char *words)
{
	struct fault fault = { .nth = 1, .count = 1, .max = UINT64_MAX };
	const char *action = strtok_r(words, " \t", &words);
	const char *what = strtok_r(words, " \t", &words), *word;
	size_t i = 0;

	while (action && i < sizeof(actions) / sizeof(*actions) && strcmp(actions[i], action))
		i++;
	if (!what || i == sizeof(actions) / sizeof(*actions) || fault_count == FAULTS_MAX)
		return -EINVAL;
	fault.action = (enum action)i;
	snprintf(fault.what, sizeof(fault.what), "%s", what);
	while ((word = strtok_r(words, " \t", &words)))
		if (fault_option(&fault, word))
			return -EINVAL;
	if (fault.action == SLOW && strcmp(what, "recv") && strcmp(what, "read"))
		return -EINVAL;
	faults[fault_count++] = fault;
	return 0;
}

/* Counts it: does the fault apply to this one? */
static bool counts(struct fault *fault, const struct ibv_device *device)
{
	if (*fault->device && (!device || strcmp(fault->device, device->name)))
		return false;
	fault->seen++;
	return fault->seen >= fault->nth && fault->seen - fault->nth < fault->count;
}

int fault_call(const char *function, const struct ibv_device *device)
{
	int ret = 0;

	for (int i = 0; i < fault_count; i++) {
		if (faults[i].action != CALL || strcmp(faults[i].what, function) ||
		    !counts(&faults[i], device))
			continue;
		ret = (int)faults[i].status;
		sleep_ms = (unsigned)faults[i].ms;
	}
	return ret;
}

int call_begin(const char *function, const struct ibv_device *device)
{
	fake_lock();
	return fault_call(function, device);
}

void fault_sleep(void)
{
	struct timespec time = { .tv_sec = sleep_ms / 1000,
				 .tv_nsec = (long)(sleep_ms % 1000) * 1000000 };

	if (sleep_ms)
		nanosleep(&time, NULL);
	sleep_ms = 0;
}

static bool is_kind(const char *kind, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return !strcmp(kind, "send");
	case IBV_WR_RDMA_WRITE:
		return !strcmp(kind, "write");
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return !strcmp(kind, "write-imm");
	case IBV_WR_RDMA_READ:
		return !strcmp(kind, "read");
	default:
		return false;
	}
}

static bool meant(struct fault *fault, const struct fake_qp *qp, uint64_t bytes)
{
	return bytes >= fault->min && bytes <= fault->max && counts(fault, &qp->device->device);
}

static void strike(const struct fault *fault, struct fake_qp *qp, struct fake_wqe *wqe,
		   uint64_t *hold_ns)
{
	switch (fault->action) {
	case STATUS:
		wqe->status = (enum ibv_wc_status)fault->status;
		break;
	case LOSE:
		wqe->lost = true;
		break;
	case DROP:
		wqe->drops = fault->status ? (int)fault->status : 1;
		break;
	case MUTE:
		wqe->mute = true;
		break;
	case CUT:
		wqe->cut = true;
		break;
	case GARBLE:
		wqe->garbled = wqe->length > 0;
		break;
	case TEAR:
		wqe->torn = wqe->length > WORD_BYTES &&
			    (is_kind("write", wqe->opcode) || is_kind("write-imm", wqe->opcode));
		break;
	case OVERTAKE:
		wqe->overtaken = is_kind("write", wqe->opcode);
		break;
	case DELAY:
		*hold_ns = fault->ms * NS_PER_MS;
		break;
	case PORT_DOWN:
	case PORT_UP:
		port_set_state(qp->device, qp->attr.port_num,
			       fault->action == PORT_UP ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
		break;
	case QP_FATAL:
		event_qp(qp, IBV_EVENT_QP_FATAL);
		qp_error(qp);
		break;
	case DEVICE_DIES:
		device_die(qp->device);
		break;
	case KILL: /* its doorbell has been rung: everything sent so far arrives */
		kill(getpid(), SIGKILL);
		break;
	case SLOW:
		wqe->answer_ns = now_ns() + fault->ms * NS_PER_MS;
		break;
	case LATE:
	case CALL:
		break;
	}
}

void fault_on_send(struct fake_qp *qp, struct fake_wqe *wqe, uint64_t *hold_ns)
{
	for (int i = 0; i < fault_count && qp->state == IBV_QPS_RTS; i++)
		if (faults[i].action != CALL &&
		    (!strcmp(faults[i].what, "any") || is_kind(faults[i].what, wqe->opcode)) &&
		    meant(&faults[i], qp, wqe->length))
			strike(&faults[i], qp, wqe, hold_ns);
}

enum ibv_wc_status fault_on_recv(struct fake_qp *qp, uint64_t length)
{
	for (int i = 0; i < fault_count; i++)
		if (faults[i].action == STATUS && !strcmp(faults[i].what, "recv") &&
		    meant(&faults[i], qp, length))
			return (enum ibv_wc_status)faults[i].status;
	return IBV_WC_SUCCESS;
}

uint64_t fault_hold_ns(struct fake_qp *qp, uint64_t length)
{
	for (int i = 0; i < fault_count; i++)
		if ((faults[i].action == LATE || faults[i].action == SLOW) &&
		    !strcmp(faults[i].what, "recv") && meant(&faults[i], qp, length))
			return faults[i].action == LATE ? NEVER : faults[i].ms * NS_PER_MS;
	return 0;
}

/* DEVICE:PORT GID | lid=N | any */
int vanish_set(char *words)
{
	const char *place = strtok_r(words, " \t", &words), *to = strtok_r(words, " \t", &words);
	struct fake_device *device;
	int number;

	if (!place || !to || vanished_count == VANISHED_MAX || !port_at(place, &device, &number))
		return -EINVAL;
	memset(&vanished[vanished_count], 0, sizeof(*vanished));
	vanished[vanished_count].device = device;
	vanished[vanished_count].port = number;
	if (sscanf(to, "lid=%u", &vanished[vanished_count].lid) != 1 && strcmp(to, "any") &&
	    gid_parse(to, &vanished[vanished_count].gid))
		return -EINVAL;
	vanished_count++;
	return 0;
}

bool vanishes(const struct fake_device *device, int port, const struct address *to)
{
	for (int i = 0; i < vanished_count; i++) {
		bool gid = gid_is_set(&vanished[i].gid);

		if (vanished[i].device != device || vanished[i].port != port)
			continue;
		if ((!gid && !vanished[i].lid) ||
		    (gid && to->global && !memcmp(&vanished[i].gid, &to->gid, sizeof(to->gid))) ||
		    (vanished[i].lid && vanished[i].lid == to->lid))
			return true;
	}
	return false;
}
