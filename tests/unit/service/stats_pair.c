/* SPDX-License-Identifier: Apache-2.0 */
#include "stats_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/service/stats.h"
#include "transports/session/registry.h"

struct pair pair;
char dir[64];

int stats_pair_setup(void **state)
{
	strcpy(dir, "/tmp/anynet-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	pair_setup_recovery(state);
	strcpy(local_cfg.stats, dir);
	strcpy(local_cfg.net, "IB");
	return 0;
}

int stats_pair_teardown(void **state)
{
	(void)state;
	stats_end();
	pair_close(&pair);
	capture_check();
	return rmdir(dir); /* fails if a file is left */
}

void open_pair(unsigned streams)
{
	pair_open(&pair, streams);
	assert_int_equal(registry_add(pair.send), 0);
	assert_int_equal(registry_add(pair.recv), 0);
}

void close_pair(void)
{
	registry_remove(pair.send);
	registry_remove(pair.recv);
	pair_close(&pair);
}
