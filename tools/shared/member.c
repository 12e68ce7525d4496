/* SPDX-License-Identifier: Apache-2.0 */
/* Members of JSON objects; see member.h. */
#include "member.h"

#include <math.h>

const char *member_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

long long member_int(const json_t *object, const char *key, long long min, long long max,
		   long long missing)
{
	const json_t *member = json_object_get(object, key);
	long long value = json_integer_value(member);

	return json_is_integer(member) && value >= min && value <= max ? value : missing;
}

double member_real(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));

	return isfinite(value) ? value : 0;
}
