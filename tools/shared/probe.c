/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and candidates in JSON; see probe.h. */
#include "probe.h"

#include "address.h"
#include "document.h"

const char *probe_transport(enum anynet_transport_kind transport)
{
	return transport == ANYNET_TRANSPORT_IB ? "IB" : "TCP";
}

json_t *probe_device(const struct anynet_device *dev)
{
	char address[ADDRESS_TEXT];

	return json_pack("{s:o, s:s, s:i, s:o, s:s}", "name", document_text(dev->name), "transport",
			 probe_transport(dev->transport), "speed_mbps", dev->speed_mbps,
			 "interface", document_text(dev->ifname), "address",
			 address_print(&dev->addr, address));
}

json_t *probe_candidates(const struct anynet_probe *probe)
{
	json_t *list = json_array();

	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *c = &probe->candidates[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:b, s:o}", "transport",
						probe_transport(c->transport), "name",
						document_text(c->name), "usable", (int)c->usable,
						"reason", document_text(c->reason)));
	}
	return list;
}
