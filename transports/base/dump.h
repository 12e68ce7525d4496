/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of ANYNET_DUMP_DIR, in which the process says what happened to connections that failed. Its disk may not
 * answer: the file is written by a thread of its own, which is there while there is something to write. The process
 * waits for it at exit, for a second at most.
 */
#ifndef ANYNET_DUMP_H
#define ANYNET_DUMP_H

#include <stdbool.h>
#include <stddef.h>

/* Append lines, in one piece. `text`, from malloc, is this function's to free. Any thread, with any lock. */
void dump_append(char *text, size_t bytes);

/* Wait until all is written. False: it is not after so long. */
bool dump_flush(unsigned ms);

#endif
