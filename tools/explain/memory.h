/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, or the end of the process with EXPLAIN_FAILED and a word on stderr. */
#ifndef EXPLAIN_MEMORY_H
#define EXPLAIN_MEMORY_H

#include <stddef.h>

#define EXPLAIN_FAILED 3 /* exit status: the log or the rules could not be read */

void *memory_get(size_t bytes); /* zeros */
void *memory_resize(void *old, size_t bytes);
char *memory_text(const char *text); /* a copy */

#endif
