/* SPDX-License-Identifier: Apache-2.0 */
/* Open descriptors and threads of this process, from /proc. */
#ifndef TESTS_SUPPORT_PROC_H
#define TESTS_SUPPORT_PROC_H

#include <stddef.h>

/* Their number, without the descriptor that reads /proc. `numbers` gets them; it has room for all or is NULL. */
size_t proc_fds(int *numbers, size_t room);
size_t proc_threads(int *numbers, size_t room);

#endif
