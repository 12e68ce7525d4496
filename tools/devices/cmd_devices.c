/* SPDX-License-Identifier: Apache-2.0 */
/* anynet devices: prints the devices that the plugin offers to NCCL. It runs the plugin's own selector. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>

#include <nccl_net/device.h>

#include "plugin/selector.h"
#include "tools/shared/address.h"
#include "tools/shared/document.h"
#include "tools/shared/output_args.h"
#include "tools/shared/probe.h"
#include "tools/shared/status.h"
#include "tools/shared/text.h"

static void print_text(const struct anynet_probe *probe)
{
	char address[ADDRESS_TEXT];

	printf("NCCL gets the net '%s' with %d device%s\n", anynet_selector_name(),
	       probe->device_count, probe->device_count == 1 ? "" : "s");
	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];

		printf("  %2d  %-16s %-3s %7d Mb/s  %-15s  %-20s %s\n", i, dev->name,
		       probe_transport(dev->transport), dev->speed_mbps, dev->ifname,
		       address_print(&dev->addr, address),
		       dev->pci_path[0] ? dev->pci_path : "no PCI device");
		if (*dev->gpu_memory)
			printf("      GPU memory %s\n", dev->gpu_memory);
	}
	printf("examined\n");
	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *c = &probe->candidates[i];

		printf("  %-3s %-16s %-3s %s\n", probe_transport(c->transport), c->name,
		       c->usable ? "yes" : "no", text_printable(c->reason));
	}
}

static void print_json(const struct anynet_probe *probe)
{
	json_t *devices = json_array();

	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];
		json_t *all = json_pack("{s:i}", "index", i);

		json_object_update_new(all, probe_device(dev));
		json_object_update_new(all,
				       json_pack("{s:s, s:i, s:i, s:s}", "pci_path", dev->pci_path,
						 "max_recvs", dev->max_recvs, "ptr_support",
						 dev->ptr_support, "gpu_memory", dev->gpu_memory));
		json_array_append_new(devices, all);
	}
	document_print("devices",
		       json_pack("{s:s, s:o, s:o}", "name", anynet_selector_name(), "devices",
				 devices, "candidates", probe_candidates(probe)),
		       stdout);
}

int cmd_devices(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Probes this host as the plugin does and prints the devices that NCCL gets. "
		       "\vThe environment has the same effect as for the plugin: NCCL_NET, "
		       "NCCL_IB_DISABLE, NCCL_SOCKET_IFNAME … Exit status: 0 there is a device, 2 there "
		       "is none, 3 invalid arguments.",
		.children = json_args,
	};
	static struct anynet_probe probe; /* too large for a stack */
	struct anynet_config cfg;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	anynet_config_load(&cfg, NULL);
	anynet_selector_run(anynet_selector_name(), &cfg, &probe);
	if (output_is_json())
		print_json(&probe);
	else
		print_text(&probe);
	return probe.device_count ? STATUS_OK : STATUS_ERROR;
}
