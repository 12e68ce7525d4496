/* SPDX-License-Identifier: Apache-2.0 */
#include "wire_addr.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct anynet_wire_addr addr_of(const char *text)
{
	struct anynet_wire_addr addr = { .port = 4711 };

	addr.family = strchr(text, ':') ? 6 : 4;
	assert_int_equal(inet_pton(addr.family == 6 ? AF_INET6 : AF_INET, text, addr.ip), 1);
	return addr;
}
