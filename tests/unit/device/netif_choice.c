/* SPDX-License-Identifier: Apache-2.0 */
#include "netif_choice.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/subnet.h>

struct netif_table table;
struct anynet_config cfg;
struct netif_verdict verdicts[TEST_LINKS_MAX];
struct netif_notes notes;

int netif_choice_setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	table_start(&table);
	return 0;
}

void set_ifname(const char *filter)
{
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "%s", filter);
}

void set_subnet(const char *subnet)
{
	snprintf(cfg.socket_subnet, sizeof(cfg.socket_subnet), "%s", subnet);
}

void expect_chosen(const char *expected)
{
	char text[1000] = "";

	netif_choose(&table, &cfg, false, verdicts, &notes);
	for (size_t i = 0; i < table.link_count; i++) {
		char addr[INET6_ADDRSTRLEN];

		if (!verdicts[i].chosen) {
			assert_true(strlen(verdicts[i].reason) > 0);
			continue;
		}
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s",
			 *text ? ", " : "", table.links[i].name,
			 subnet_ip_text(&verdicts[i].addr->addr, addr));
	}
	assert_string_equal(text, expected);
}

void expect_reason(const char *name, const char *part)
{
	for (size_t i = 0; i < table.link_count; i++) {
		if (strcmp(table.links[i].name, name))
			continue;
		assert_false(verdicts[i].chosen);
		if (!strstr(verdicts[i].reason, part))
			fail_msg("%s: '%s' is not in '%s'", name, part, verdicts[i].reason);
		return;
	}
	fail_msg("no %s", name);
}
