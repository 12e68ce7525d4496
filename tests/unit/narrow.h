/* SPDX-License-Identifier: Apache-2.0 */
/* A socket of the code under test that takes a limited number of bytes: send() and sendmsg() of this program are the
 * test's. */
#ifndef TESTS_UNIT_NARROW_H
#define TESTS_UNIT_NARROW_H

#include <stddef.h>

/* One socket at a time; fd -1: none. */
void narrow_socket(int fd, size_t room);
size_t narrow_room(void); /* the rest of the limit */

#endif
