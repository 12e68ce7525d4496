/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices from sysfs; see pci.h. */
#include "pci.h"

#include <string.h>

#define DEVICES          "/sys/bus/pci/devices"
#define NVIDIA           0x10de
#define CLASS_DISPLAY    0x03
#define CONFIG_BYTES     4096
#define EXTENDED_AT      256
#define CAPABILITY_ACS   0x000d
#define ACS_CONTROL      6      /* offset of the control register in the capability */
#define ACS_REDIRECTS    0x000c /* request and completion redirect */
#define CAPABILITIES_MAX 256
#define ROOT_PORT_DEPTH  4 /* components of /sys/devices/pci0000:3a/0000:3a:00.0 */

struct text_list pci_gpus(const struct host *host)
{
	struct text_list all = host_list(host, DEVICES), gpus = { 0 };

	for (size_t i = 0; i < all.count; i++) {
		const char *gpu = all.items[i];

		if (host_number(host, text_format(DEVICES "/%s/vendor", gpu), 0) == NVIDIA &&
		    host_number(host, text_format(DEVICES "/%s/class", gpu), 0) >> 16 ==
			    CLASS_DISPLAY)
			text_list_add(&gpus, gpu);
	}
	return gpus;
}

char *pci_path(const struct host *host, const char *link_or_address)
{
	return host_resolve(host, *link_or_address == '/'
					  ? link_or_address
					  : text_format(DEVICES "/%s", link_or_address));
}

static long numa_node(const struct host *host, const char *path)
{
	return host_number(host, text_format("%s/numa_node", path), -1);
}

/* Counts the components of a path. */
static unsigned depth(const char *path)
{
	unsigned count = 0;

	for (; *path; path++)
		count += *path == '/' && path[1];
	return count;
}

enum pci_distance pci_distance(const struct host *host, const char *a, const char *b)
{
	size_t common = 0;
	unsigned shared, below_a, below_b;

	for (size_t i = 0; a[i] == b[i] || !a[i] || !b[i]; i++) {
		if ((a[i] == '/' || !a[i]) && (b[i] == '/' || !b[i]))
			common = i;
		if (!a[i] || !b[i])
			break;
	}
	shared = depth(text_copy(a, common));
	if (shared >= ROOT_PORT_DEPTH) {
		below_a = depth(a + common);
		below_b = depth(b + common);
		return below_a <= 2 && below_b <= 2 ? PCI_PIX : PCI_PXB;
	}
	return numa_node(host, a) == numa_node(host, b) ? PCI_PHB : PCI_SYS;
}

const char *pci_distance_name(enum pci_distance distance)
{
	static const char *const names[] = {
		[PCI_PIX] = "PIX",
		[PCI_PXB] = "PXB",
		[PCI_PHB] = "PHB",
		[PCI_SYS] = "SYS",
	};

	return names[distance];
}

static unsigned word_at(const unsigned char *config, size_t at)
{
	return config[at] | (unsigned)config[at + 1] << 8;
}

bool pci_redirects(const unsigned char *config, size_t bytes)
{
	size_t at = EXTENDED_AT;

	for (int i = 0; i < CAPABILITIES_MAX && at >= EXTENDED_AT && at + 8 <= bytes; i++) {
		if (word_at(config, at) == CAPABILITY_ACS)
			return word_at(config, at + ACS_CONTROL) & ACS_REDIRECTS;
		at = word_at(config, at + 2) >> 4;
	}
	return false;
}

char *pci_acs_bridge(const struct host *host, const char *path, bool *unknown)
{
	char *bridge = text_dup(path), *slash;

	/* The root port is excluded: it routes all transfers to the root complex anyway. */
	while ((slash = strrchr(bridge, '/')) && depth(bridge) > ROOT_PORT_DEPTH + 1) {
		size_t bytes = 0;
		char *config;

		*slash = 0;
		config = host_read(host, text_format("%s/config", bridge), CONFIG_BYTES, &bytes);
		*unknown |= !config || bytes < EXTENDED_AT;
		if (config && pci_redirects((const unsigned char *)config, bytes))
			return bridge;
	}
	return NULL;
}
