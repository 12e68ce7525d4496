/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of rtnetlink messages. Lengths are checked: nothing beyond the message is read. */
#ifndef ANYNET_RTATTR_H
#define ANYNET_RTATTR_H

#include <stddef.h>
#include <stdint.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* Fills attrs[type] for types up to `max`, from `bytes` bytes of attributes. NULL = it is not there. */
void rtattr_parse(const struct rtattr **attrs, unsigned short max, const struct rtattr *attr, size_t bytes);

const void *rtattr_data(const struct rtattr *attr);
size_t rtattr_bytes(const struct rtattr *attr);

/* The attribute may be missing: 0 and "". A text that is too long is cut. */
uint32_t rtattr_u32(const struct rtattr *attr);
void rtattr_text(const struct rtattr *attr, char *text, size_t bytes);

#endif
