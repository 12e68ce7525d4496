/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the plugin; see traffic_net.h. */
#include "traffic_net.h"

#include <stdio.h>

/* Keeps the first error: the plugin's last warning, if there is one. */
static void say(struct group *g, const char *text)
{
	struct traffic_net *n = (struct traffic_net *)g;
	const char *warning = endpoint_warning();

	if (!*n->error)
		snprintf(n->error, sizeof(n->error), "%s", *warning ? warning : text);
	/* The text goes into JSON, and may be cut within a UTF-8 character. */
	for (char *c = n->error; *c; c++)
		*c = (char)(*c & 0x80 ? '?' : *c);
}

int traffic_net_open(struct traffic_net *n, const char *plugin, int dev, int channels)
{
	*n = (struct traffic_net){
		.group = { .who = "anynet pair", .size = 1, .here = 1, .yields = true, .say = say },
		.channels = channels,
	};
	if (endpoint_open(&n->ep, &n->group, plugin, DRIVER_ABI_NEWEST, dev))
		return -1;
	for (int i = 0; i < 2 * channels; i++)
		n->links[i] = (struct link){ .ep = &n->ep,
					     .slot = &n->slots[i],
					     .is_send = i < channels,
					     .total = UINT64_MAX };
	endpoint_warning(); /* forget earlier ones */
	return links_listen(n->links, 2 * channels);
}

/* Says how many connections are missing, unless a call has failed. */
static void tell_missing(struct traffic_net *n, int ms)
{
	const char *warning = endpoint_warning();
	int missing = 0;

	if (*n->error)
		return;
	for (int i = 0; i < 2 * n->channels; i++)
		missing += !n->links[i].comm;
	snprintf(n->error, sizeof(n->error),
		 "%d of %d connections are missing, and none was established within %d s%s%.500s", missing,
		 2 * n->channels, ms / 1000, *warning ? "; " : "", warning);
}

int traffic_net_connect(struct traffic_net *n, int ms)
{
	n->group.deadline_ns = (uint64_t)ms * 1000000;
	for (int i = 0; i < n->channels; i++)
		atomic_store(&n->links[i].slot->ready, 1);
	if (links_connect(n->links, 2 * n->channels)) {
		tell_missing(n, ms);
		return -1;
	}
	endpoint_warning(); /* they were in vain */
	return links_register(n->links, 2 * n->channels, TRAFFIC_STEP);
}

void traffic_net_close(struct traffic_net *n)
{
	if (!n->ep.net)
		return;
	links_close(n->links, 2 * n->channels);
	endpoint_close(&n->ep);
}
