/* SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <plugin/abi.h>

int tables_setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake_log_clear();
	assert_int_equal(ncclNetPlugin_v9.init(fake_logger), ANYNET_NCCL_SUCCESS);
	return 0;
}
