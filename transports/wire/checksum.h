/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ANYNET_CHECKSUM on the wire. In a frame with the flag CRC, the upper half of `size` is the CRC32C of the header,
 * computed with that half zero (message sizes do not use it). In a control frame it covers the payload as well. The
 * payload of a DATA frame is followed by a CRC32C of its own.
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

/* Add the checksum to a header. `payload`: that of a control frame; NULL for DATA. */
static inline void checksum_header(struct anynet_wire_frame *header, const void *payload)
{
	header->flags |= ANYNET_FLAG_CRC;
	header->size |= (uint64_t)checksum_of(header, payload) << CHECKSUM_SIZE_BITS;
}

/* Check a header and remove the checksum from `size`. False: the checksum is wrong or missing. */
static inline bool checksum_check(struct anynet_wire_frame *header, const void *payload)
{
	uint32_t said = (uint32_t)(header->size >> CHECKSUM_SIZE_BITS);

	header->size &= ((uint64_t)1 << CHECKSUM_SIZE_BITS) - 1;
	return header->flags & ANYNET_FLAG_CRC && checksum_of(header, payload) == said;
}

#endif
