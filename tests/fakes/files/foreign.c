/* SPDX-License-Identifier: Apache-2.0 */
/* A library that reports when it is loaded: it creates the file that FOREIGN_MARK names. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void loaded(void) __attribute__((constructor));

static void loaded(void)
{
	const char *mark = getenv("FOREIGN_MARK");

	if (mark)
		close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}
