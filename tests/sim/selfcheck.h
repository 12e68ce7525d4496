/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the simulated sockets with the kernel's: equal calls must have equal results. */
#ifndef TESTS_SIM_SELFCHECK_H
#define TESTS_SIM_SELFCHECK_H

/* Prints the differences. Returns the number of different results. */
int selfcheck(void);

#endif
