/* SPDX-License-Identifier: Apache-2.0 */
/* A socket of the code under test that takes only so many bytes more: send() and sendmsg() of this
 * program are the test's. */
#ifndef TESTS_UNIT_NARROW_H
#define TESTS_UNIT_NARROW_H

#include <stddef.h>

/* One socket at a time; fd -1: none. */
void narrow_socket(int fd, size_t room);
size_t narrow_room(void); /* what is left of it */

#endif
