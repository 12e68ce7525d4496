/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of rtnetlink messages; see rtattr.h. */
#include "device/rtattr.h"

#include <string.h>

void rtattr_parse(const struct rtattr **attrs, unsigned short max,
			     const struct rtattr *attr, size_t bytes)
{
	memset(attrs, 0, (max + 1u) * sizeof(*attrs));
	while (bytes >= sizeof(*attr) && attr->rta_len >= sizeof(*attr) && attr->rta_len <= bytes) {
		unsigned short type = (unsigned short)(attr->rta_type & (unsigned)NLA_TYPE_MASK);
		size_t step = RTA_ALIGN(attr->rta_len);

		if (type <= max)
			attrs[type] = attr;
		if (step >= bytes)
			return;
		bytes -= step;
		attr = (const void *)((const char *)attr + step);
	}
}

const void *rtattr_data(const struct rtattr *attr)
{
	return (const char *)attr + RTA_LENGTH(0);
}

size_t rtattr_bytes(const struct rtattr *attr)
{
	return attr->rta_len - RTA_LENGTH(0);
}

uint32_t rtattr_u32(const struct rtattr *attr)
{
	uint32_t value = 0;

	if (attr && rtattr_bytes(attr) >= sizeof(value))
		memcpy(&value, rtattr_data(attr), sizeof(value));
	return value;
}

void rtattr_text(const struct rtattr *attr, char *text, size_t bytes)
{
	size_t length = attr ? strnlen(rtattr_data(attr), rtattr_bytes(attr)) : 0;

	if (length >= bytes)
		length = bytes - 1;
	if (length)
		memcpy(text, rtattr_data(attr), length);
	text[length] = 0;
}
