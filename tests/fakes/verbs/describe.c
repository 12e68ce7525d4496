/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description: which devices there are, and what befalls them. FAKE_VERBS has it, or names a file
 * with it by a path that starts with "/"; without the variable there are two devices, fake0 and
 * fake1. Lines end with a newline or ";", "#" starts a comment. Addresses are IPv6, or IPv4 for a
 * mapped one.
 *
 *   device NAME [PROPERTY…]     open=ERRNO query=ERRNO iwarp dmabuf ece sysfs=DIRECTORY max_qp=N
 *                               data_direct=DIRECTORY (below /sys: gpu.c)
 *                               max_wr=N max_sge=N max_cqe=N inline=BYTES rd_atomic=N
 *                               clamp: more inline data than there is gives what there is (hns);
 *                               no-inline: the flag for it is ignored (mana, vmw_pvrdma);
 *                               endless: 7 retries never end (soft-RoCE)
 *                               guid=N: the system image's, 0 for none (the node's)
 *   port [PROPERTY…]            one more port of that device:
 *                               query=ERRNO layer=ib|eth|N state=down|init|armed|active|N lid=N
 *                               mtu=1…5 speed=N width=N (as in struct ibv_port_attr)
 *                               rate=N (100 Mb/s, by ibv_query_port_speed)
 *                               gid=INDEX,ADDRESS|none[,ib|v1|v2[,NETDEV]]
 *   list errno=ERRNO            the list of devices cannot be had
 *   memlock BYTES               that much may be registered
 *   gpu [peer-memory] [unflushed] [lossy] [unreadable]
 *                               GPU memory may be registered by its address; what is written there
 *                               is seen late (gpu.c), or never; READs of it fail
 *   hurry N                     timeouts are N times shorter than real ones (64), at least 1 ms
 *   progress caller|thread      who posts also sends (caller), or always the library's thread
 *   wire DIRECTORY              processes with the same one reach each other; if nothing is said,
 *                               the one in FAKE_VERBS_WIRE
 *
 * Also at any time (fake_verbs_script):
 *
 *   set DEVICE:PORT [PROPERTY…]     what has changed is told by an async event; not so a smaller mtu: longer
 *                                   packets of the queue pairs that there are get lost
 *   event DEVICE[:PORT] NAME        port-err port-active lid-change gid-change pkey-change sm-change
 *                                   client-reregister; qp-fatal: to all QPs of the device
 *   fatal DEVICE                    DEVICE_FATAL: it is of no use from then on
 *   revive DEVICE                   it works again, for who opens it anew
 *   vanish DEVICE:PORT ADDRESS|lid=N|any   what the port sends there is lost, answers included
 *   fault ACTION KIND [OPTION…]     at the nth=K-th work request of the kind, and count=N in all:
 *       KIND    send write write-imm read any; of those with min=BYTES to max=BYTES, on device=NAME
 *       status  fails with status=N, unsent (KIND recv: a receive does)
 *       lose    never arrives             drop   is lost once, or status=N times
 *       mute    arrives, and the answer never does; nor do later ones
 *       cut     only its first half arrives
 *       garble  all arrives but its last byte
 *       tear    its last aligned 8 bytes are written 1 ms before the rest (KIND write, write-imm)
 *       overtake  leaves after 2 ms; a WRITE of up to 256 bytes posted behind it within 1 ms is in memory
 *               before it, as with adaptive routing (KIND write, of up to 256 bytes)
 *       late    arrives; its completion comes when the QP goes to ERR, and until then nothing more
 *               gets through to it (KIND recv)
 *       slow    KIND recv: its completion comes after ms=N, and no later one before it. Adapters write
 *               completions by themselves, behind the data, and may gather some (mlx5: CQE compression,
 *               rdma-core mlx5dv_create_cq(3)).
 *               KIND read: its answer comes after ms=N, and no later one before it; the timeout runs
 *               meanwhile. A READ of GPU memory waits for what is being written there, and PCI Express lets a
 *               read take as long as 900 ms and more (PCI_EXP_DEVCTL2_COMP_TIMEOUT in Linux); the queue
 *               pair by which NCCL flushes has the timeout and retries of all others (NCCL
 *               src/transport/net_ib/connect.cc:1320@v2.30.7)
 *       delay   leaves after ms=N         kill   the process
 *       port-down port-up qp-fatal device-fatal   before it leaves
 *   fault call FUNCTION [OPTION…]   at its nth=K-th call (post_send: work request) fails with
 *                                   errno=N; ms=N: reg_mr takes that long
 *   no-faults                       no more faults, nothing vanishes, what is slow to be received is told
 */
#include "fake.h"
#include "fakes/script.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* As on a real adapter: link-local and IPv4, each as RoCE v1 and v2. */
#define DEFAULT_DEVICE(n, address)                                                                \
	"device fake" n "; port layer=eth gid=0,fe80::fa:" n ",v1,lo gid=1,fe80::fa:" n ",v2,lo " \
	"gid=2," address ",v1,lo gid=3," address ",v2,lo;"

static const char default_text[] =
	DEFAULT_DEVICE("0", "10.77.0.1") DEFAULT_DEVICE("1", "10.77.0.2");

struct word_value {
	const char *word;
	int value;
};

static const struct word_value only_numbers[] = { { NULL, 0 } };
static const struct word_value layers[] = { { "ib", IBV_LINK_LAYER_INFINIBAND },
					    { "eth", IBV_LINK_LAYER_ETHERNET },
					    { NULL, 0 } };
static const struct word_value states[] = { { "down", IBV_PORT_DOWN },
					    { "init", IBV_PORT_INIT },
					    { "armed", IBV_PORT_ARMED },
					    { "active", IBV_PORT_ACTIVE },
					    { NULL, 0 } };
static const struct word_value gid_types[] = { { "ib", IBV_GID_TYPE_IB },
					       { "v1", IBV_GID_TYPE_ROCE_V1 },
					       { "v2", IBV_GID_TYPE_ROCE_V2 },
					       { NULL, 0 } };
static const struct word_value port_events[] = { { "port-err", IBV_EVENT_PORT_ERR },
						 { "port-active", IBV_EVENT_PORT_ACTIVE },
						 { "lid-change", IBV_EVENT_LID_CHANGE },
						 { "gid-change", IBV_EVENT_GID_CHANGE },
						 { "pkey-change", IBV_EVENT_PKEY_CHANGE },
						 { "sm-change", IBV_EVENT_SM_CHANGE },
						 { "client-reregister",
						   IBV_EVENT_CLIENT_REREGISTER },
						 { NULL, 0 } };

static int number(const char *text, int *value)
{
	char rest;

	return sscanf(text, "%i%c", value, &rest) == 1 ? 0 : -EINVAL;
}

static int word_or_number(const struct word_value *words, const char *text, int *value)
{
	for (; words->word; words++) {
		if (!strcmp(words->word, text)) {
			*value = words->value;
			return 0;
		}
	}
	return number(text, value);
}

/* "NAME=VALUE": returns the value if the name matches. */
static const char *value_of(const char *word, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(word, name, length) && word[length] == '=' ? word + length + 1 : NULL;
}

int gid_parse(const char *text, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (inet_pton(AF_INET6, text, gid->raw) == 1)
		return 0;
	gid->raw[10] = gid->raw[11] = 0xff;
	return inet_pton(AF_INET, text, gid->raw + 12) == 1 ? 0 : -EINVAL;
}

/* INDEX,ADDRESS[,TYPE[,NETDEV]] */
static int set_gid(struct fake_port *port, const char *text)
{
	char copy[128], *rest = copy, *index, *address, *type, *netdev;
	int i, kind = port->layer == IBV_LINK_LAYER_ETHERNET ? IBV_GID_TYPE_ROCE_V2
							     : IBV_GID_TYPE_IB;
	struct fake_gid gid = { .ifindex = 0 };

	snprintf(copy, sizeof(copy), "%s", text);
	index = strtok_r(rest, ",", &rest);
	address = strtok_r(rest, ",", &rest);
	type = strtok_r(rest, ",", &rest);
	netdev = strtok_r(rest, ",", &rest);
	if (!index || !address || number(index, &i) || i < 0 || i >= GID_TABLE ||
	    (strcmp(address, "none") && gid_parse(address, &gid.gid)) ||
	    (type && word_or_number(gid_types, type, &kind)))
		return -EINVAL;
	gid.type = (uint32_t)kind;
	gid.ifindex = netdev ? if_nametoindex(netdev) : 0;
	port->gids[i] = gid;
	return 0;
}

static int port_property(struct fake_port *port, const char *word)
{
	static const struct {
		const char *name;
		size_t offset;
		const struct word_value *words;
	} known[] = {
		{ "query", offsetof(struct fake_port, query_error), only_numbers },
		{ "layer", offsetof(struct fake_port, layer), layers },
		{ "state", offsetof(struct fake_port, state), states },
		{ "lid", offsetof(struct fake_port, lid), only_numbers },
		{ "mtu", offsetof(struct fake_port, mtu), only_numbers },
		{ "speed", offsetof(struct fake_port, speed), only_numbers },
		{ "width", offsetof(struct fake_port, width), only_numbers },
		{ "rate", offsetof(struct fake_port, rate), only_numbers },
	};
	const char *value = value_of(word, "gid");

	if (value)
		return set_gid(port, value);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		value = value_of(word, known[i].name);
		if (value)
			return word_or_number(known[i].words, value,
					      (int *)(void *)((char *)port + known[i].offset));
	}
	return -EINVAL;
}

static int port_properties(struct fake_port *port, char *words)
{
	const char *word;

	while ((word = strtok_r(words, " \t", &words)))
		if (port_property(port, word))
			return -EINVAL;
	return 0;
}

static int add_port(char *words)
{
	struct fake_device *device = &fake.devices[fake.device_count - 1];
	struct fake_port *port;

	if (!fake.device_count || device->port_count == PORTS_MAX)
		return -EINVAL;
	port = &device->ports[device->port_count++];
	*port = (struct fake_port){ .layer = IBV_LINK_LAYER_ETHERNET,
				    .state = IBV_PORT_ACTIVE,
				    .mtu = IBV_MTU_4096,
				    .speed = 32,  /* 25 Gb/s … */
				    .width = 2 }; /* … on 4 lanes */
	return port_properties(port, words);
}

static int device_property(struct fake_device *device, const char *word)
{
	static const struct {
		const char *name;
		size_t offset;
	} known[] = {
		{ "open", offsetof(struct fake_device, open_error) },
		{ "query", offsetof(struct fake_device, query_error) },
		{ "max_qp", offsetof(struct fake_device, max_qp) },
		{ "max_wr", offsetof(struct fake_device, max_wr) },
		{ "max_sge", offsetof(struct fake_device, max_sge) },
		{ "max_cqe", offsetof(struct fake_device, max_cqe) },
		{ "inline", offsetof(struct fake_device, max_inline) },
		{ "rd_atomic", offsetof(struct fake_device, max_rd_atomic) },
		{ "guid", offsetof(struct fake_device, image_guid) },
	};
	const char *value = value_of(word, "sysfs"), *direct = value_of(word, "data_direct");

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const char *count = value_of(word, known[i].name);
		if (count)
			return number(count, (int *)(void *)((char *)device + known[i].offset));
	}
	if (value)
		snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "%s", value);
	else if (direct)
		snprintf(device->data_direct, sizeof(device->data_direct), "%s", direct);
	else if (!strcmp(word, "iwarp"))
		device->device.transport_type = IBV_TRANSPORT_IWARP;
	else if (!strcmp(word, "dmabuf"))
		device->dmabuf = true;
	else if (!strcmp(word, "ece"))
		device->ece = true;
	else if (!strcmp(word, "clamp"))
		device->clamps = true;
	else if (!strcmp(word, "no-inline"))
		device->ignores_inline = true;
	else if (!strcmp(word, "endless"))
		device->endless = true;
	else
		return -EINVAL;
	return 0;
}

static int add_device(char *words)
{
	struct fake_device *device = &fake.devices[fake.device_count];
	const char *word = strtok_r(words, " \t", &words);

	if (!word || fake.device_count == DEVICES_MAX)
		return -EINVAL;
	*device = (struct fake_device){ .max_qp = 4096,
					.max_wr = 8192,
					.max_sge = SGE_MAX,
					.max_cqe = 1 << 16,
					.max_inline = 512,
					.image_guid = -1,
					.max_rd_atomic = 16 };
	device->device.node_type = IBV_NODE_CA;
	snprintf(device->device.name, sizeof(device->device.name), "%.31s", word);
	snprintf(device->device.dev_name, sizeof(device->device.dev_name), "uverbs%d",
		 fake.device_count++);
	snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path),
		 "/sys/class/infiniband/%.31s", word);
	while ((word = strtok_r(words, " \t", &words)))
		if (device_property(device, word))
			return -EINVAL;
	return device->max_sge <= SGE_MAX ? 0 : -EINVAL;
}

struct fake_port *port_at(const char *place, struct fake_device **device, int *number_out)
{
	char name[NAME_BYTES];

	*number_out = 1;
	if (sscanf(place, "%31[^:]:%d", name, number_out) < 1)
		return NULL;
	for (int i = 0; i < fake.device_count; i++) {
		*device = &fake.devices[i];
		if (!strcmp(name, (*device)->device.name) && *number_out >= 1 &&
		    *number_out <= (*device)->port_count)
			return &(*device)->ports[*number_out - 1];
	}
	return NULL;
}

static void tell_changes(const struct fake_device *device, int at, const struct fake_port *before)
{
	const struct fake_port *now = &device->ports[at - 1];
	bool was = before->state == IBV_PORT_ACTIVE, is = now->state == IBV_PORT_ACTIVE;

	if (was != is)
		event_port(device, is ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, at);
	if (before->lid != now->lid)
		event_port(device, IBV_EVENT_LID_CHANGE, at);
	if (memcmp(before->gids, now->gids, sizeof(now->gids)))
		event_port(device, IBV_EVENT_GID_CHANGE, at);
}

void port_set_state(struct fake_device *device, int at, int state)
{
	struct fake_port before = device->ports[at - 1];

	device->ports[at - 1].state = state;
	tell_changes(device, at, &before);
}

static int set_port(char *words)
{
	const char *place = strtok_r(words, " \t", &words);
	struct fake_device *device;
	struct fake_port *port, before;
	int at, ret;

	port = place ? port_at(place, &device, &at) : NULL;
	if (!port)
		return -EINVAL;
	before = *port;
	ret = port_properties(port, words);
	tell_changes(device, at, &before);
	return ret;
}

static void fail_qps(const struct fake_device *device)
{
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	if (qp->device == device)
		qp_error(qp);
}

void device_die(struct fake_device *device)
{
	device->dead = true;
	event_port(device, IBV_EVENT_DEVICE_FATAL, 0);
	fail_qps(device);
}

static int fatal(char *words)
{
	struct fake_device *device;
	int at;

	if (!port_at(words, &device, &at))
		return -EINVAL;
	device_die(device);
	return 0;
}

static int revive(char *words)
{
	struct fake_device *device;
	int at;

	if (!port_at(words, &device, &at))
		return -EINVAL;
	device->dead = false;
	return 0;
}

static int raise_event(char *words)
{
	const char *place = strtok_r(words, " \t", &words), *name = strtok_r(words, " \t", &words);
	struct fake_device *device;
	struct fake_qp *qp;
	int at, type;

	if (!place || !name || !port_at(place, &device, &at))
		return -EINVAL;
	if (strcmp(name, "qp-fatal")) {
		if (word_or_number(port_events, name, &type))
			return -EINVAL;
		event_port(device, (enum ibv_event_type)type, at);
		return 0;
	}
	LIST_FOREACH(qp, &fake.qps, next)
	if (qp->device == device)
		event_qp(qp, IBV_EVENT_QP_FATAL);
	fail_qps(device);
	return 0;
}

static int set_progress(char *words)
{
	fake.by_thread = !strcmp(words, "thread");
	return fake.by_thread || !strcmp(words, "caller") ? 0 : -EINVAL;
}

static int set_memlock(char *words)
{
	return sscanf(words, "%lu", &fake.memlock) == 1 ? 0 : -EINVAL;
}

static int set_hurry(char *words)
{
	return sscanf(words, "%u", &fake.hurry) == 1 && fake.hurry ? 0 : -EINVAL;
}

static int set_wire(char *words)
{
	if (fake.counts.contexts || strlen(words) >= sizeof(fake.wire))
		return -EINVAL;
	strcpy(fake.wire, words);
	return 0;
}

static int set_list(char *words)
{
	const char *value = value_of(words, "errno");

	return value ? number(value, &fake.list_error) : -EINVAL;
}

static int no_faults(char *words)
{
	(void)words;
	faults_forget();
	responder_release();
	return 0;
}

static const struct script_command commands[] = {
	{ "device", add_device, true, NULL },    { "port", add_port, true, NULL },
	{ "list", set_list, true, NULL },        { "wire", set_wire, true, NULL },
	{ "memlock", set_memlock, false, NULL }, { "gpu", gpu_set, false, NULL },
	{ "hurry", set_hurry, false, NULL },     { "progress", set_progress, false, NULL },
	{ "set", set_port, false, NULL },        { "event", raise_event, false, NULL },
	{ "fatal", fatal, false, NULL },         { "revive", revive, false, NULL },
	{ "vanish", vanish_set, false, NULL },
	{ "fault", fault_add, false, NULL },     { "no-faults", no_faults, false, NULL },
};
static const struct script script = { "verbs", commands, sizeof(commands) / sizeof(*commands) };

int obey(const char *text)
{
	return script_obey(&script, text, fake.counts.contexts);
}

/* Once, and again when the text has changed and no old device is in use. */
int describe(void)
{
	static char described[SCRIPT_BYTES];
	const char *wire = getenv("FAKE_VERBS_WIRE");
	char text[SCRIPT_BYTES], no_words[] = "";
	int ret = script_of("FAKE_VERBS", default_text, text);

	if (ret || fake.counts.contexts || (fake.described && !strcmp(text, described)))
		return ret;
	memset(fake.devices, 0, sizeof(fake.devices));
	fake.device_count = fake.list_error = 0;
	fake.memlock = UINT64_MAX;
	fake.hurry = 64;
	fake.by_thread = false;
	gpu_set(no_words);
	snprintf(fake.wire, sizeof(fake.wire), "%s", wire ? wire : "");
	faults_forget();
	strcpy(described, text);
	fake.described = true;
	return obey(text) ? EINVAL : 0;
}
