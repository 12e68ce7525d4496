/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of ANYNET_DUMP_DIR with the events of failed comms. Its file system may not respond, so a separate thread
 * writes it; the thread exists while there is something to write. At exit the process waits for it, for up to a second.
 */
#ifndef ANYNET_DUMP_H
#define ANYNET_DUMP_H

#include <stdbool.h>
#include <stddef.h>

/* Append lines by one write. Takes ownership of `text`, which is from malloc. Does not block. Any thread, with any lock
 * held. */
void dump_append(char *text, size_t bytes);

/* Wait for up to `ms` until everything is written. False: it is not. */
bool dump_flush(unsigned ms);

#endif
