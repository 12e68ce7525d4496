/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated sockets against the kernel's own: the same calls, and the same answers. */
#ifndef TESTS_SIM_SELFCHECK_H
#define TESTS_SIM_SELFCHECK_H

/* Prints what differs. Returns how many answers do. */
int selfcheck(void);

#endif
