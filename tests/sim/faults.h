/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a plan, each at its time, and ended after its time. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "sim/plan.h"

void faults_start(struct plan *plan);

/* Something has happened to a process that a fault may be aimed at: if so, it begins a moment later. */
void faults_aim(enum plan_event event, const struct sim_process *process);

/* --- RDMA NICs (faults_verbs.c) --- */

struct sim_host;

/* For one reason more, or one less. */
void faults_set_port(struct sim_host *host, unsigned nic, bool down);

/* The fault of a kind of theirs begins or ends. */
void faults_set_verbs(const struct plan *plan, const struct plan_fault *fault, bool on);

#endif
