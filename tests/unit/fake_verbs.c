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
 *              | "port=" layer ":" state ":" lid ":" gid     one more port: link layer, state and
 *                                          LID as numbers, and the only GID index that is set
 *              | "port=errno:" errno       one more port that cannot be queried
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 8
#define PORTS_MAX   4
#define GID_TABLE   16

int fake_verbs_open_count(void);
int fake_verbs_list_count(void);

struct fake_port {
	int error, layer, state, lid, gid;
};

struct fake_device {
	struct ibv_device device; /* first */
	int open_error, query_error, port_count;
	struct fake_port ports[PORTS_MAX];
};

static struct fake_device devices[DEVICES_MAX];
static int device_count, list_error, opened, listed;

int fake_verbs_open_count(void)
{
	return opened;
}

int fake_verbs_list_count(void)
{
	return listed;
}

static void parse_property(struct fake_device *fake, const char *text)
{
	struct fake_port *port = &fake->ports[fake->port_count];

	if (sscanf(text, "open=%d", &fake->open_error) == 1 ||
	    sscanf(text, "query=%d", &fake->query_error) == 1)
		return;
	if (!strcmp(text, "iwarp"))
		fake->device.transport_type = IBV_TRANSPORT_IWARP;
	else if (sscanf(text, "port=errno:%d", &port->error) == 1 ||
		 sscanf(text, "port=%d:%d:%d:%d", &port->layer, &port->state, &port->lid,
			&port->gid) == 4)
		fake->port_count++;
	else
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

static struct fake_device *fake_of(struct ibv_context *context)
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
	attr->gid_tbl_len = GID_TABLE;
	attr->lid = (uint16_t)port->lid;
	attr->link_layer = (uint8_t)port->layer;
	attr->active_width = 2;  /* 4 lanes */
	attr->active_speed = 32; /* of 25 Gb/s */
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	if (index >= GID_TABLE) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	gid->raw[15] = index == fake_of(context)->ports[number - 1].gid;
	return 0;
}
