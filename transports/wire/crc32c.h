/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli), by the CPU's instruction if it has one. Any thread. */
#ifndef ANYNET_CRC32C_H
#define ANYNET_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is 0 for the first piece of data, and the previous result for the next. `data` may be NULL with 0 bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same without the instruction. */
uint32_t crc32c_by_tables(uint32_t crc, const void *data, size_t bytes);

#endif
