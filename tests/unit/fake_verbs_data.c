/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libibverbs that only data transfer needs: for a probe they have to be there, and
 * nobody calls them. Without rdma-core's header, whose prototypes these do not have. */
#include <stdlib.h>

#define NEVER_CALLED(name) \
	void name(void);   \
	void name(void)    \
	{                  \
		abort();   \
	}

NEVER_CALLED(ibv_alloc_pd)
NEVER_CALLED(ibv_dealloc_pd)
NEVER_CALLED(ibv_reg_mr)
NEVER_CALLED(ibv_dereg_mr)
NEVER_CALLED(ibv_create_cq)
NEVER_CALLED(ibv_destroy_cq)
NEVER_CALLED(ibv_create_qp)
NEVER_CALLED(ibv_modify_qp)
NEVER_CALLED(ibv_query_qp)
NEVER_CALLED(ibv_destroy_qp)
NEVER_CALLED(ibv_get_async_event)
NEVER_CALLED(ibv_ack_async_event)
