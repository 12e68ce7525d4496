/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts from the environment: the parser of each setting, and the lists of names and networks in settings. The first
 * byte selects the setting, the rest is its value. A value that a parser accepts must be accepted again in the form in
 * which it is printed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/config.h>

#include "transports/device/name_filter.h"
#include "transports/device/netif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void use_in_choice(const struct anynet_config *cfg)
{
	struct netif_link links[] = {
		{ .name = "lo", .index = 1, .flags = 0x49 },
		{ .name = "eth0", .index = 2, .flags = 0x43, .type = 1 },
	};
	struct netif_addr addrs[2] = { { .ifindex = 1, .prefix = 8 }, { .ifindex = 2 } };
	struct netif_table table = {
		.links = links, .link_count = 2, .addrs = addrs, .addr_count = 2
	};
	struct netif_verdict verdicts[2];
	struct netif_notes notes;

	addrs[0].addr.ss_family = AF_INET;
	addrs[1].addr.ss_family = AF_INET6;
	memset((char *)&addrs[0].addr + 4, 0x7f, 4);
	memset((char *)&addrs[1].addr + 8, 0xfd, 16);
	netif_choose(&table, cfg, false, verdicts, &notes);
}

static void use_as_setting(const struct anynet_config_row *row, const char *text)
{
	struct anynet_config cfg, again;
	char printed[512], printed_again[512];

	memset(&cfg, 0, sizeof(cfg));
	if (row->parse(row, text, &cfg))
		return;
	again = cfg;
	anynet_config_format(row, &cfg, printed, sizeof(printed));
	if (row->parse(row, printed, &again))
		abort();
	anynet_config_format(row, &again, printed_again, sizeof(printed_again));
	if (strcmp(printed, printed_again))
		abort();
	use_in_choice(&cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text;

	if (!bytes)
		return 0;
	text = calloc(1, bytes);
	if (!text)
		abort();
	memcpy(text, data + 1, bytes - 1);
	use_as_setting(&anynet_config_rows[data[0] % anynet_config_row_count], text);
	name_filter_pass(text, "mlx5_0", 1);
	name_filter_names(text, "eth0");
	free(text);
	return 0;
}
