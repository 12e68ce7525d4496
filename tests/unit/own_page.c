/* SPDX-License-Identifier: Apache-2.0 */
#include "own_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "local_net.h"
#include "transports/service/stats.h"

const char *own_page_file(void)
{
	static char path[400];
	char command[400];
	FILE *list;

	snprintf(command, sizeof(command), "ls -d %s/" ANYNET_STATS_PREFIX "* 2>/dev/null",
		 local_cfg.stats);
	list = popen(command, "r");
	assert_non_null(list);
	if (!fgets(path, sizeof(path), list))
		*path = 0;
	pclose(list);
	path[strcspn(path, "\n")] = 0;
	return *path ? path : NULL;
}

struct page own_page_look(void)
{
	static uint8_t bytes[ANYNET_STATS_COMMS_AT + ANYNET_STATS_COMMS * ANYNET_STATS_COMM_STEP];
	struct page page;
	FILE *file;

	stats_look();
	file = fopen(own_page_file(), "r");
	assert_non_null(file);
	assert_int_equal(page_parse(&page, bytes, fread(bytes, 1, sizeof(bytes), file)), 0);
	fclose(file);
	return page;
}
