/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a registration; see mr.h. */
#include "memory/mr.h"

#include <stdlib.h>

#include "memory/ib_memory.h"

void mr_return(struct anynet_mr *mr)
{
	if (mr->borrowed)
		LIST_REMOVE(mr, among);
	ib_memory_release(mr);
	free(mr);
}
