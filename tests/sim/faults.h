/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the faults of a plan at their times, and ends them after their durations. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "sim/plan.h"

void faults_start(struct plan *plan);

/* An event of a process at which a fault may be aimed: such a fault begins a moment later. */
void faults_aim(enum plan_event event, const struct sim_process *process);

/* --- RDMA NICs (faults_verbs.c) --- */

struct sim_host;

/* Adds a reason for the port to be down, or removes one. */
void faults_set_port(struct sim_host *host, unsigned nic, bool down);

/* A fault of an RDMA NIC begins or ends. */
void faults_set_verbs(const struct plan *plan, const struct plan_fault *fault, bool on);

#endif
