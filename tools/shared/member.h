/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of JSON objects that came from another host or a file: a default where they are missing or of
 * another type, and numbers within [min, max] or else `missing`.
 */
#ifndef SHARED_MEMBER_H
#define SHARED_MEMBER_H

#include <jansson.h>
#include <stdint.h>

const char *member_text(const json_t *object, const char *key);
long long member_int(const json_t *object, const char *key, long long min, long long max,
		     long long missing);
double member_real(const json_t *object, const char *key);

#endif
