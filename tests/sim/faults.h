/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a plan, each at its time, and ended after its time. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "sim/plan.h"

void faults_start(const struct plan *plan);

#endif
