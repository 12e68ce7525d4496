/* SPDX-License-Identifier: Apache-2.0 */
/* What this process has open, and its threads, as /proc tells. */
#ifndef TESTS_SUPPORT_PROC_H
#define TESTS_SUPPORT_PROC_H

#include <stddef.h>

/* How many, without the descriptor that is used for looking. Their numbers go to `numbers`, which has
 * room for them or is NULL. */
size_t proc_fds(int *numbers, size_t room);
size_t proc_threads(int *numbers, size_t room);

#endif
