/* SPDX-License-Identifier: Apache-2.0 */
/* Reads settings, devices and versions of this host; see host.h. */
#include "host.h"

#include "facts.h"
#include "plugin/selector.h"

void pair_host_read(struct pair_host *host, const char *plugin)
{
	host->plugin = plugin;
	anynet_selector_name();
	anynet_config_load(&host->cfg, NULL);
	anynet_selector_run(&host->cfg, &host->probe);
	host->facts = facts_gather(&host->cfg, &host->probe);
}
