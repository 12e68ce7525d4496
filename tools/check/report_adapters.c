/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs adapters in a host's report: properties from sysfs and from the driver. */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "transports/device/verbs.h"

#define DEVICES "/sys/class/infiniband"

static const char *gid_kind(const char *gid)
{
	if (!strncmp(gid, "fe80:", 5))
		return "link-local";
	return strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) ? "IPv6" : "IPv4";
}

/* Returns index, type and kind of address of the GIDs that are set, without the address itself. */
static json_t *gids(const struct host *host, const char *port)
{
	char *dir = text_format("%s/gids", port), *attributes = text_format("%s/gid_attrs", port);
	struct text_list names = host_list(host, dir);
	json_t *list = json_array(), *entry;

	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		char *gid = host_line(host, text_format("%s/%s", dir, name));

		if (!gid || strspn(gid, "0:") == strlen(gid))
			continue;
		entry = json_pack("{s:i, s:s}", "index", atoi(name), "address", gid_kind(gid));
		report_line(entry, "type", host, attributes, text_format("types/%s", name));
		report_line(entry, "interface", host, attributes, text_format("ndevs/%s", name));
		json_array_append_new(list, entry);
	}
	return list;
}

static json_t *ports(const struct host *host, const char *device)
{
	static const char *const files[] = { "link_layer", "state", "phys_state", "rate" };
	char *dir = text_format("%s/ports", device);
	struct text_list names = host_list(host, dir);
	json_t *list = json_array();

	for (size_t i = 0; i < names.count; i++) {
		char *port = text_format("%s/%s", dir, names.items[i]);
		json_t *entry = json_pack("{s:i}", "port", atoi(names.items[i]));

		for (size_t k = 0; k < ARRAY_SIZE(files); k++)
			report_line(entry, files[k], host, port, files[k]);
		json_object_set_new(entry, "gids", gids(host, port));
		json_array_append_new(list, entry);
	}
	return list;
}

static json_t *of_sysfs(const struct host *host, const char *name)
{
	static const char *const files[][2] = { { "firmware", "fw_ver" },
						{ "board", "board_id" },
						{ "type", "hca_type" },
						{ "node_type", "node_type" } };
	char *dir = text_format(DEVICES "/%s", name);
	char *path = pci_path(host, text_format("%s/device", dir));
	json_t *adapter = json_pack("{s:o}", "name", document_text(name));

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		report_line(adapter, files[i][0], host, dir, files[i][1]);
	if (path)
		json_object_set_new(adapter, "pci", report_pci(host, path));
	json_object_set_new(adapter, "ports", ports(host, dir));
	return adapter;
}

/* Returns the largest inline size that the plugin may request and a queue pair accepts; -1 = no
 * queue pair can be created. */
static int inline_bytes(const struct verbs *verbs, struct ibv_pd *pd, struct ibv_cq *cq)
{
	static const uint32_t wanted[] = { 512, 256, 128, 96, 64, 0 };

	for (size_t i = 0; pd && cq && i < ARRAY_SIZE(wanted); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 1,
				 .max_recv_wr = 1,
				 .max_send_sge = 1,
				 .max_recv_sge = 1,
				 .max_inline_data = wanted[i] },
		};
		struct ibv_qp *qp = verbs->create_qp(pd, &attr);

		if (qp) {
			verbs->destroy_qp(qp);
			return (int)attr.cap.max_inline_data;
		}
	}
	return -1;
}

/* Returns the driver's limits. */
static json_t *limits(const struct verbs *verbs, struct ibv_context *context)
{
	struct ibv_device_attr attr = { .max_qp = 0 };
	struct ibv_pd *pd = verbs->alloc_pd(context);
	struct ibv_cq *cq = verbs->create_cq(context, 16, NULL, NULL, 0);
	json_t *all = json_object();

	if (!verbs->query_device(context, &attr))
		json_object_update_missing_new(
			all,
			json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "max_qp",
				  attr.max_qp, "max_qp_wr", attr.max_qp_wr, "max_sge", attr.max_sge,
				  "max_cq", attr.max_cq, "max_cqe", attr.max_cqe, "max_mr",
				  attr.max_mr, "max_qp_rd_atom", attr.max_qp_rd_atom, "atomic_cap",
				  (int)attr.atomic_cap, "max_mr_size", (json_int_t)attr.max_mr_size,
				  "page_size_cap", (json_int_t)attr.page_size_cap));
	json_object_set_new(all, "max_inline", json_integer(inline_bytes(verbs, pd, cq)));
	if (cq)
		verbs->destroy_cq(cq);
	if (pd)
		verbs->dealloc_pd(pd);
	return all;
}

static json_t *of_verbs(const struct verbs *verbs, struct ibv_device *device)
{
	struct ibv_context *context;
	json_t *told = json_object();

	json_object_set_new(told, "transport",
			    json_string(device->transport_type == IBV_TRANSPORT_IB      ? "IB"
					: device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP"
											: "other"));
	errno = 0;
	context = verbs->open_device(device);
	if (!context) {
		json_object_set_new(told, "error", json_string(strerror(errno)));
		return told;
	}
	json_object_set_new(told, "limits", limits(verbs, context));
	verbs->close_device(context);
	return told;
}

static json_t *find(json_t *adapters, const char *name)
{
	json_t *adapter;
	size_t i;

	json_array_foreach (adapters, i, adapter) {
		if (!strcmp(json_string_value(json_object_get(adapter, "name")), name))
			return adapter;
	}
	adapter = json_pack("{s:s}", "name", name);
	json_array_append_new(adapters, adapter);
	return adapter;
}

static void add_verbs(json_t *adapters, const struct check *check)
{
	const char *file = check->config.ibverbs_lib;
	struct ibv_device **list;
	struct verbs verbs;
	char why[160];
	int count = 0;

	if (verbs_open(*file ? file : "libibverbs.so.1", &verbs, why, sizeof(why)))
		return;
	list = verbs.get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		char *name = text_printable(verbs.get_device_name(list[i]));

		json_object_set_new(find(adapters, name), "verbs", of_verbs(&verbs, list[i]));
	}
	if (list)
		verbs.free_device_list(list);
	verbs_close(&verbs);
}

json_t *report_adapters(const struct check *check)
{
	struct text_list names = host_list(&check->host, DEVICES);
	json_t *adapters = json_array();

	for (size_t i = 0; i < names.count; i++)
		json_array_append_new(adapters, of_sysfs(&check->host, names.items[i]));
	add_verbs(adapters, check);
	return adapters;
}
