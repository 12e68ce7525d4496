/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts with a number each, usually the position in a table, which is then searched in constant time whatever its size.
 * An index is a JSON object, which its owner releases.
 */
#ifndef CLUSTER_INDEX_H
#define CLUSTER_INDEX_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/util.h>

/*
 * Texts are cut after so many bytes. Separate the names in a text by line breaks: a host that reports names with line
 * breaks confuses its own entries only.
 */
#define INDEX_TEXT 512
#define INDEX_NONE SIZE_MAX

/* Returns the number of the text. One that has none gets `number`. */
size_t index_put(json_t *index, size_t number, const char *fmt, ...) ANYNET_PRINTF(3, 4);

/* Returns the number of the text, or INDEX_NONE. */
size_t index_get(const json_t *index, const char *fmt, ...) ANYNET_PRINTF(2, 3);

#endif
