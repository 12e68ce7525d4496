/* SPDX-License-Identifier: Apache-2.0 */
/* A log line for each address once; see log_once.h. */
#include "base/log_once.h"

#include <string.h>

#include "base/socket.h"

bool log_once(struct log_once *told, const struct sockaddr_storage *addr)
{
	struct anynet_wire_addr wire;

	if (!socket_to_wire(addr, 0, 0, &wire) || told->count == LOG_ONCE_MAX)
		return false;
	for (unsigned i = 0; i < told->count; i++)
		if (!memcmp(&told->addrs[i], &wire, sizeof(wire)))
			return false;
	told->addrs[told->count++] = wire;
	return true;
}
