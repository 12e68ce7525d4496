/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs without hardware, for probes: it lists, opens and queries what the environment
 * variable FAKE_VERBS describes, and only that.
 *
 *   FAKE_VERBS = "errno N"                 the list of devices cannot be had
 *              = device ("; " device)*     "" = there is none
 *   device     = name (" " property)*
 *   property   = "open=" errno             it cannot be opened
 *              | "query=" errno            its properties cannot be queried
 *              | "iwarp"                   it is an iWARP device
 *              | "guid=" number            system image GUID
 *              | "port=" layer ":" state ":" lid ":" gid     one more port: link layer, state and
 *                                          LID as numbers, and a GID index that is set, 99 = none
 *              | "port=errno:" errno       one more port that cannot be queried
 *              | "gid=" index "/" type "/" address "/" ifindex   one more GID of the last port:
 *                                          type as enum ibv_gid_type
 *              | step "=" errno            pd, mr, cq, qp, init, rtr, rts, recv, send or poll fails
 *              | "status=" number          of every completion
 *              | "silent"                  nothing ever completes
 *              | "garbles"                 other bytes arrive than were written
 *              | "clamps"                  gives less inline data than is asked for (hns)
 *              | "ignores-inline"          takes the flag for inline data and does not know it (mana,
 *                                          vmw_pvrdma): the bytes are looked for in registered memory
 *              | "garbles-inline"          the same, and other bytes arrive
 */
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 16

static const char *const steps[FAKE_STEPS] = {
	[FAKE_PD] = "pd",     [FAKE_MR] = "mr",     [FAKE_CQ] = "cq",   [FAKE_QP] = "qp",
	[FAKE_INIT] = "init", [FAKE_RTR] = "rtr",   [FAKE_RTS] = "rts", [FAKE_RECV] = "recv",
	[FAKE_SEND] = "send", [FAKE_POLL] = "poll",
};

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t count, uint32_t flags, size_t entry_bytes);

static struct fake_device devices[DEVICES_MAX];
static int device_count, list_error, opened, listed, gids_queried;

int fake_verbs_open_count(void)
{
	return opened;
}

int fake_verbs_list_count(void)
{
	return listed;
}

int fake_verbs_gid_count(void)
{
	return gids_queried;
}

static bool parse_step(struct fake_device *fake, const char *text)
{
	for (int i = 0; i < FAKE_STEPS; i++) {
		size_t bytes = strlen(steps[i]);

		if (strncmp(text, steps[i], bytes) || text[bytes] != '=')
			continue;
		fake->errors[i] = atoi(text + bytes + 1);
		return true;
	}
	return false;
}

static bool parse_gid(struct fake_device *fake, const char *text)
{
	struct fake_port *port = &fake->ports[fake->port_count - 1];
	struct ibv_gid_entry *gid = &port->gids[port->gid_count];
	char addr[64];

	if (!fake->port_count || port->gid_count == FAKE_GIDS_MAX ||
	    sscanf(text, "gid=%u/%u/%63[^/]/%u", &gid->gid_index, &gid->gid_type, addr,
		   &gid->ndev_ifindex) != 4 ||
	    inet_pton(AF_INET6, addr, gid->gid.raw) != 1)
		return false;
	gid->port_num = (uint32_t)fake->port_count;
	port->gid_count++;
	return true;
}

/* "layer:state:lid:gid", or "errno:N". */
static bool parse_port(struct fake_device *fake, const char *text)
{
	struct fake_port *port = &fake->ports[fake->port_count];

	if (fake->port_count == FAKE_PORTS_MAX)
		return false;
	if (sscanf(text, "port=errno:%d", &port->error) != 1 &&
	    sscanf(text, "port=%d:%d:%d:%d", &port->layer, &port->state, &port->lid, &port->gid) !=
		    4)
		return false;
	fake->port_count++;
	if (port->gid < FAKE_GID_TABLE && !port->error) {
		struct ibv_gid_entry *gid = &port->gids[port->gid_count++];

		*gid = (struct ibv_gid_entry){ .gid_index = (uint32_t)port->gid,
					       .gid_type = port->layer == IBV_LINK_LAYER_ETHERNET
								   ? IBV_GID_TYPE_ROCE_V1
								   : IBV_GID_TYPE_IB,
					       .port_num = (uint32_t)fake->port_count };
		gid->gid.raw[15] = 1;
	}
	return true;
}

static void parse_property(struct fake_device *fake, const char *text)
{
	if (sscanf(text, "open=%d", &fake->open_error) == 1 ||
	    sscanf(text, "query=%d", &fake->query_error) == 1 ||
	    sscanf(text, "guid=%llu", &fake->guid) == 1 ||
	    sscanf(text, "status=%d", &fake->status) == 1)
		return;
	if (!strcmp(text, "iwarp"))
		fake->device.transport_type = IBV_TRANSPORT_IWARP;
	else if (!strcmp(text, "silent"))
		fake->silent = true;
	else if (!strcmp(text, "garbles"))
		fake->garbles = true;
	else if (!strcmp(text, "clamps"))
		fake->clamps = true;
	else if (!strcmp(text, "ignores-inline"))
		fake->ignores_inline = true;
	else if (!strcmp(text, "garbles-inline"))
		fake->garbles_inline = true;
	else if (!parse_port(fake, text) && !parse_gid(fake, text) && !parse_step(fake, text))
		abort();
}

static void parse_device(char *text)
{
	struct fake_device *fake = &devices[device_count];
	char *rest = text, *word = strtok_r(rest, " ", &rest);

	memset(fake, 0, sizeof(*fake));
	snprintf(fake->device.name, sizeof(fake->device.name), "%s", word);
	snprintf(fake->device.dev_name, sizeof(fake->device.dev_name), "uverbs%d", device_count);
	fake->device.node_type = IBV_NODE_CA;
	while ((word = strtok_r(rest, " ", &rest)))
		parse_property(fake, word);
	device_count++;
}

static void parse_script(void)
{
	const char *script = getenv("FAKE_VERBS");
	char copy[1024], *rest = copy, *device;

	device_count = list_error = 0;
	snprintf(copy, sizeof(copy), "%s", script ? script : "");
	if (sscanf(copy, "errno %d", &list_error) == 1)
		return;
	while ((device = strtok_r(rest, ";", &rest)) && device_count < DEVICES_MAX)
		parse_device(device);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list;

	parse_script();
	errno = list_error;
	list = list_error ? NULL : calloc((size_t)device_count + 1, sizeof(struct ibv_device *));
	if (!list)
		return NULL;
	for (int i = 0; i < device_count; i++)
		list[i] = &devices[i].device;
	*count = device_count;
	listed++;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
	listed--;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct fake_device *fake_of(struct ibv_context *context)
{
	return (struct fake_device *)(void *)context->device;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_device *fake = (struct fake_device *)(void *)device;
	struct ibv_context *context;

	if (fake->open_error) {
		errno = fake->open_error;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->device = device;
	if (fake_verbs_data_ops)
		fake_verbs_data_ops(context);
	opened++;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	free(context);
	opened--;
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct fake_device *fake = fake_of(context);

	if (fake->query_error)
		return fake->query_error;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = (uint8_t)fake->port_count;
	attr->sys_image_guid = fake->guid;
	attr->node_guid = 77;
	attr->max_qp = 1000;
	return 0;
}

#undef ibv_query_port
/* Like the real one, it knows nothing of what later versions put at the end of the struct. */
int ibv_query_port(struct ibv_context *context, uint8_t number,
		   struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)compat;
	const struct fake_port *port = &fake_of(context)->ports[number - 1];

	if (port->error)
		return port->error;
	attr->state = (enum ibv_port_state)port->state;
	attr->gid_tbl_len = FAKE_GID_TABLE;
	attr->lid = (uint16_t)port->lid;
	attr->link_layer = (uint8_t)port->layer;
	attr->active_mtu = IBV_MTU_1024;
	attr->active_width = 2;  /* 4 lanes */
	attr->active_speed = 32; /* of 25 Gb/s */
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	const struct fake_port *port = &fake_of(context)->ports[number - 1];

	gids_queried++;
	if (index >= FAKE_GID_TABLE) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	for (int i = 0; i < port->gid_count; i++)
		if ((int)port->gids[i].gid_index == index)
			*gid = port->gids[i].gid;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t count, uint32_t flags, size_t entry_bytes)
{
	const struct fake_device *fake = fake_of(context);
	size_t used = 0;

	if (flags || entry_bytes != sizeof(*entries))
		return -EOPNOTSUPP;
	if (count > UINT16_MAX / entry_bytes)
		return -EINVAL;
	for (int i = 0; i < fake->port_count; i++)
		for (int j = 0; j < fake->ports[i].gid_count && used < count; j++)
			entries[used++] = fake->ports[i].gids[j];
	return (ssize_t)used;
}
