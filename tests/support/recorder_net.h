/* SPDX-License-Identifier: Apache-2.0 */
/* Records of recorder_net.c; its symbol `recorder` is one of these. */
#ifndef TESTS_SUPPORT_RECORDER_NET_H
#define TESTS_SUPPORT_RECORDER_NET_H

#include <stddef.h>

struct recorder {
	int calls;
	size_t bytes;
	int tag, n, traffic_class;
	void *phandle, *request_on_entry;
};

#endif
