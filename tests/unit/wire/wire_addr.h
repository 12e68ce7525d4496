/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of NICs as they are in handles and hellos, from text. */
#ifndef TESTS_UNIT_WIRE_WIRE_ADDR_H
#define TESTS_UNIT_WIRE_WIRE_ADDR_H

#include <nccl_net/wire.h>

/* IPv4 or IPv6, with a port. */
struct anynet_wire_addr addr_of(const char *text);

#endif
