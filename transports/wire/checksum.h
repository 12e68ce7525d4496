/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ANYNET_CHECKSUM on the wire: a frame with the flag CRC has in the upper half of `size` (no message
 * is that large) the CRC32C of its header, taken with that half zero; a control frame's covers its
 * payload too. A DATA frame's payload is followed by its own.
 */
#ifndef ANYNET_CHECKSUM_H
#define ANYNET_CHECKSUM_H

#include <stdbool.h>

#include <nccl_net/wire.h>

#include "wire/crc32c.h"

#define CHECKSUM_SIZE_BITS 32

static inline uint32_t checksum_of(const struct anynet_wire_frame *header, const void *payload)
{
	uint32_t crc = crc32c(0, header, sizeof(*header));

	return payload ? crc32c(crc, payload, header->length) : crc;
}

/* `payload`: of a control frame, else NULL. */
static inline void checksum_header(struct anynet_wire_frame *header, const void *payload)
{
	header->flags |= ANYNET_FLAG_CRC;
	header->size |= (uint64_t)checksum_of(header, payload) << CHECKSUM_SIZE_BITS;
}

/* Is it right? Takes the checksum away, so that `size` is the size again. */
static inline bool checksum_check(struct anynet_wire_frame *header, const void *payload)
{
	uint32_t said = (uint32_t)(header->size >> CHECKSUM_SIZE_BITS);

	header->size &= ((uint64_t)1 << CHECKSUM_SIZE_BITS) - 1;
	return header->flags & ANYNET_FLAG_CRC && checksum_of(header, payload) == said;
}

#endif
