/* SPDX-License-Identifier: Apache-2.0 */
/* anynet devices: prints the devices that the plugin offers to NCCL. It runs the plugin's own selector. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <nccl_net/device.h>

#include "plugin/selector.h"
#include "tools/shared/address.h"
#include "tools/shared/document.h"
#include "tools/shared/output_args.h"

#define NO_DEVICE 2 /* exit status: NCCL would get no device */

static const char *transport_name(enum anynet_transport_kind transport)
{
	return transport == ANYNET_TRANSPORT_IB ? "IB" : "TCP";
}

static void print_text(const struct anynet_probe *probe)
{
	char address[ADDRESS_TEXT];

	printf("NCCL gets the net '%s' with %d device%s\n", anynet_selector_name(),
	       probe->device_count, probe->device_count == 1 ? "" : "s");
	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];

		printf("  %2d  %-16s %-3s %7d Mb/s  %-15s  %-20s %s\n", i, dev->name,
		       transport_name(dev->transport), dev->speed_mbps, dev->ifname,
		       address_print(&dev->addr, address),
		       dev->pci_path[0] ? dev->pci_path : "no PCI device");
		if (*dev->gpu_memory)
			printf("      GPU memory %s\n", dev->gpu_memory);
	}
	printf("examined\n");
	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *c = &probe->candidates[i];

		printf("  %-3s %-16s %-3s %s\n", transport_name(c->transport), c->name,
		       c->usable ? "yes" : "no", c->reason);
	}
}

static void print_json(const struct anynet_probe *probe)
{
	json_t *devices = json_array(), *candidates = json_array(), *all;
	char address[ADDRESS_TEXT];

	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];

		json_array_append_new(
			devices,
			json_pack("{s:i, s:s, s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:s}", "index", i,
				  "name", dev->name, "transport", transport_name(dev->transport),
				  "speed_mbps", dev->speed_mbps, "interface", dev->ifname,
				  "address", address_print(&dev->addr, address), "pci_path",
				  dev->pci_path, "max_recvs", dev->max_recvs, "ptr_support",
				  dev->ptr_support, "gpu_memory", dev->gpu_memory));
	}
	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *c = &probe->candidates[i];

		json_array_append_new(candidates,
				      json_pack("{s:s, s:s, s:b, s:s}", "transport",
						transport_name(c->transport), "name", c->name,
						"usable", c->usable, "reason", c->reason));
	}
	all = json_pack("{s:s, s:o, s:o}", "name", anynet_selector_name(), "devices", devices,
			"candidates", candidates);
	document_print("devices", all, stdout);
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
	anynet_selector_name();
	anynet_config_load(&cfg, NULL);
	anynet_selector_run(&cfg, &probe);
	if (output_is_json())
		print_json(&probe);
	else
		print_text(&probe);
	return probe.device_count ? 0 : NO_DEVICE;
}
