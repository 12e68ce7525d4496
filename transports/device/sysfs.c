/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about network cards from sysfs; see sysfs.h. */
#include "device/sysfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Max depth of stacked interfaces (VLAN on a bond on a team); ends loops. */
#define STACK_MAX 8

#define VENDOR_NVIDIA 0x10de
#define CLASS_DISPLAY 0x03 /* also 3D controllers, which have no display */

/* Has the text the form dddd:bb:dd.f? A domain may have up to eight digits (Hyper-V, VMD). */
static bool is_pci_address(const char *text)
{
	static const char shape[] = ":hh:hh.o";
	size_t domain = strspn(text, "0123456789abcdef");

	if (domain < 4 || domain > 8 || strlen(text) != domain + strlen(shape))
		return false;
	for (size_t i = 0; shape[i]; i++) {
		char c = text[domain + i];

		if (shape[i] == 'h'   ? !isxdigit((unsigned char)c)
		    : shape[i] == 'o' ? c < '0' || c > '7'
				      : c != shape[i])
			return false;
	}
	return true;
}

static bool has_pci_subsystem(const char *dir)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	ssize_t bytes;

	if ((size_t)snprintf(path, sizeof(path), "%s/subsystem", dir) >= sizeof(path))
		return false;
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes < 0)
		return false;
	target[bytes] = 0;
	last = strrchr(target, '/');
	return !strcmp(last ? last + 1 : target, "pci");
}

/* Shortens `path` to the nearest PCI function on it. False = there is none. */
static bool climb_to_pci(char *path)
{
	for (;;) {
		char *last = strrchr(path, '/');

		if (!last || last == path)
			return false;
		if (is_pci_address(last + 1) && has_pci_subsystem(path))
			return true;
		*last = 0;
	}
}

/* The first by name of the entries of `dir` that begin with `prefix`, without it. False = none. */
static bool first_entry(const char *dir, const char *prefix, char *first, size_t bytes)
{
	DIR *stream = opendir(dir);
	const struct dirent *entry;
	bool found = false;

	if (!stream)
		return false;
	while ((entry = readdir(stream))) {
		const char *name = entry->d_name + strlen(prefix);

		if (*entry->d_name == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) ||
		    strlen(name) >= bytes)
			continue;
		if (found && strcmp(name, first) >= 0)
			continue;
		snprintf(first, bytes, "%s", name);
		found = true;
	}
	closedir(stream);
	return found;
}

const char *sysfs_pci_path(const char *root, const char *class_name, const char *name, char *path)
{
	char dir[PATH_MAX], device[PATH_MAX], lower[NAME_MAX + 1];

	snprintf(lower, sizeof(lower), "%s", name);
	for (int depth = 0; depth < STACK_MAX; depth++) {
		int bytes = snprintf(dir, sizeof(dir), "%s/class/%s/%s", root, class_name, lower);

		if (bytes < 0 || (size_t)bytes + sizeof("/device") > sizeof(device))
			break;
		memcpy(device, dir, (size_t)bytes);
		memcpy(device + bytes, "/device", sizeof("/device"));
		if (realpath(device, path)) {
			if (climb_to_pci(path))
				return path;
			break;
		}
		/* The first of the interfaces below. */
		if (!first_entry(dir, "lower_", lower, sizeof(lower)))
			break;
	}
	*path = 0;
	return path;
}

void sysfs_line(char *line, size_t bytes, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	FILE *file;
	int n;

	*line = 0;
	va_start(args, fmt);
	n = vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(path))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(line, (int)bytes, file))
		*line = 0;
	line[strcspn(line, "\n")] = 0;
	fclose(file);
}

/* The number in a file of a PCI function; -1 = none. */
static long read_hex(const char *root, const char *function, const char *file)
{
	char line[32];
	unsigned value;

	sysfs_line(line, sizeof(line), "%s/bus/pci/devices/%s/%s", root, function, file);
	return sscanf(line, "%x", &value) == 1 ? (long)value : -1;
}

int sysfs_gpus(const char *root)
{
	char dir[PATH_MAX];
	const struct dirent *entry;
	DIR *stream;
	int count = 0;

	if ((size_t)snprintf(dir, sizeof(dir), "%s/bus/pci/devices", root) >= sizeof(dir))
		return 0;
	stream = opendir(dir);
	if (!stream)
		return 0;
	while ((entry = readdir(stream)))
		count += read_hex(root, entry->d_name, "vendor") == VENDOR_NVIDIA &&
			 read_hex(root, entry->d_name, "class") >> 16 == CLASS_DISPLAY;
	closedir(stream);
	return count;
}

bool sysfs_is_wifi(const char *root, const char *ifname)
{
	char line[64];

	sysfs_line(line, sizeof(line), "%s/class/net/%s/phy80211/name", root, ifname);
	return *line;
}

int sysfs_net_speed(const char *root, const char *ifname)
{
	char line[32];
	int speed;

	sysfs_line(line, sizeof(line), "%s/class/net/%s/speed", root, ifname);
	return sscanf(line, "%d", &speed) == 1 && speed > 0 ? speed : 0; /* -1: not known */
}

void sysfs_first_rdma(const char *root, char *name, size_t bytes)
{
	char dir[PATH_MAX];

	if ((size_t)snprintf(dir, sizeof(dir), "%s/class/infiniband", root) >= sizeof(dir) ||
	    !first_entry(dir, "", name, bytes))
		*name = 0;
}

/* "800 Gb/sec (4X XDR)", "2.5 Gb/sec (1X SDR)" (Linux drivers/infiniband/core/sysfs.c, rate_show). */
int sysfs_ib_rate(const char *root, const char *device, unsigned port)
{
	unsigned gbps = 0, tenths = 0;
	char line[64];

	sysfs_line(line, sizeof(line), "%s/class/infiniband/%s/ports/%u/rate", root, device, port);
	return sscanf(line, "%6u.%1u", &gbps, &tenths) >= 1 ? (int)(gbps * 1000 + tenths * 100) : 0;
}
