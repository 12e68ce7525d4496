/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of JSON objects from another host or a file. If a member is missing or has another type,
 * the result is "" or 0; member_int returns `missing`, also for numbers outside [min, max].
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
