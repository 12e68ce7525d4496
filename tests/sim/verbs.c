/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA adapters of simulated processes: their libraries, their timers, and the packets between them; see verbs.h. */
#include "sim/verbs.h"
#include "fakes/verbs/fake_verbs.h"
#include "sim/load.h"
#include "sim/net.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX     64
#define FLOWS         4096
#define SEGMENT_BYTES 1100 /* RoCE with an MTU of 1,024 */

struct copy {
	char path[LOAD_PATH_BYTES];
	verbs_arrive_fn *arrive;
	verbs_read_fn *read;
	verbs_turn_fn *turn;
	int (*script)(const char *text);
	void (*counts)(struct fake_verbs_counts *counts);
};

struct sim_adapters {
	struct sim_timer timer; /* first */
	struct sim_process *process;
	const struct copy *copy;
	uint32_t slot;
	char environment[2048];
};

struct packet_of_verbs {
	struct sim_timer timer; /* first */
	struct verbs_label label;
	struct sim_adapters *from, *to;
	void *packet;
	int nic;
	bool lost;
};

struct sim_random verbs_random;

static struct copy *copies;
static unsigned copy_count, copies_taken;
static struct sim_adapters *slots[SLOTS_MAX];
static uint64_t arrives_ns[FLOWS]; /* arrival of the last packet of a flow */

/* --- libraries --- */

static void find(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "libibverbs of the simulation lacks %s\n", name);
		exit(2);
	}
	memcpy(function, &address, sizeof(address));
}

void verbs_load(const char *library, unsigned count)
{
	copies = calloc(count, sizeof(*copies));
	for (unsigned i = 0; copies && i < count; i++) {
		void *handle = load_copy(library, NULL, copies[i].path);

		find(handle, "fake_verbs_arrive", &copies[i].arrive);
		find(handle, "fake_verbs_read", &copies[i].read);
		find(handle, "fake_verbs_turn", &copies[i].turn);
		find(handle, "fake_verbs_script", &copies[i].script);
		find(handle, "fake_verbs_counts", &copies[i].counts);
	}
	copy_count = count;
}

const char *verbs_library(const struct sim_process *process)
{
	return process->adapters ? process->adapters->copy->path : NULL;
}

/* --- the adapters of a process --- */

static bool work(const struct sim_adapters *adapters)
{
	return !adapters->process->dead && !adapters->process->host->dead;
}

static void turn(struct sim_timer *timer)
{
	struct sim_adapters *adapters = (struct sim_adapters *)timer;
	uint64_t next;

	if (!work(adapters))
		return;
	process_act_as(adapters->process);
	next = adapters->copy->turn();
	process_act_as(NULL);
	process_poke(adapters->process);
	if (next != SIM_NEVER && (!timer->slot || next < timer->at))
		timer_set(timer, next);
}

void verbs_give(struct sim_process *process, uint32_t slot, const char *description)
{
	struct sim_adapters *adapters = calloc(1, sizeof(*adapters));
	int i = 0;

	if (!adapters || slot >= SLOTS_MAX || copies_taken == copy_count)
		abort();
	*adapters = (struct sim_adapters){
		.timer.fire = turn, .process = process, .copy = &copies[copies_taken++], .slot = slot
	};
	snprintf(adapters->environment, sizeof(adapters->environment), "FAKE_VERBS=%s", description);
	while (process->env[i])
		i++;
	process->env[i] = adapters->environment;
	process->adapters = slots[slot] = adapters;
}

void verbs_order(struct sim_process *process, const char *script)
{
	int ret;

	if (!process->adapters || !work(process->adapters))
		return;
	process_act_as(process);
	ret = process->adapters->copy->script(script);
	process_act_as(NULL);
	if (ret)
		sim_fail("the fake libibverbs refuses: %s", script);
	timer_set(&process->adapters->timer, sim_now);
}

void verbs_counts(struct sim_process *process, struct fake_verbs_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (process->adapters)
		process->adapters->copy->counts(counts);
}

void verbs_wake(void)
{
	timer_set(&process_self()->adapters->timer, sim_now);
}

uint32_t verbs_slot(void)
{
	return process_self()->adapters->slot;
}

bool verbs_chance(unsigned per_million)
{
	return random_chance(&verbs_random, per_million);
}

/* --- packets --- */

static void deliver(struct packet_of_verbs *packet)
{
	struct sim_adapters *who = packet->to;

	/* The sender of the request waits for the answer, so the loss of either one is reported to it. */
	if (packet->lost && !packet->label.is_reply)
		who = packet->from;
	if ((packet->lost && packet->label.is_part) || !work(who))
		return;
	process_act_as(who->process);
	who->copy->arrive(packet->packet, packet->lost);
	process_act_as(NULL);
	process_poke(who->process);
}

static void arrive(struct sim_timer *timer)
{
	struct packet_of_verbs *packet = (struct packet_of_verbs *)timer;

	if (!packet->lost)
		packet->lost = !packet->to || !work(packet->to) || !net_comes_in(packet->label.target, packet->nic);
	if (!packet->lost && work(packet->from)) {
		process_act_as(packet->from->process);
		packet->from->copy->read(packet->packet);
		process_act_as(NULL);
	}
	trace_note(70, packet->label.flow, packet->label.bytes << 1 | packet->lost);
	deliver(packet);
	free(packet->packet);
	free(packet);
}

/* Within a host or a fabric; there is no routing between fabrics. */
static bool reaches(const struct verbs_label *label)
{
	return net_host_of(label->source) == process_self()->host &&
	       (label->source & 0xff0000) == (label->target & 0xff0000);
}

static uint64_t *last_of(const struct verbs_label *label)
{
	return &arrives_ns[(label->slot * 31 + label->flow * 7 + label->is_reply) % FLOWS];
}

void verbs_send(const struct verbs_label *label, void *data)
{
	struct packet_of_verbs *packet = calloc(1, sizeof(*packet));
	struct net_way way = { .bytes = label->bytes, .at_ns = sim_now, .segment = SEGMENT_BYTES };
	uint64_t *last = last_of(label);

	if (!packet)
		abort();
	*packet = (struct packet_of_verbs){ .timer.fire = arrive,
					    .label = *label,
					    .from = process_self()->adapters,
					    .to = label->slot < SLOTS_MAX ? slots[label->slot] : NULL,
					    .packet = data };
	packet->lost = !reaches(label) || !net_goes_out(label->source, label->target, &way);
	packet->nic = way.nic;
	/* The packets of a queue pair stay in order. */
	if (!packet->lost && way.at_ns > *last)
		*last = way.at_ns;
	timer_set(&packet->timer, packet->lost ? sim_now : *last);
}
