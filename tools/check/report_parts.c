/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for all parts of a host's report; see report.h. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

void report_line(json_t *object, const char *name, const struct host *host, const char *dir,
		 const char *file)
{
	char *path = text_format("%s/%s", dir, file);
	char *line = host_line(host, path), *text = line ? text_printable(line) : NULL;

	if (text && *text)
		json_object_set_new(object, name, json_string(text));
	free(text);
	free(line);
	free(path);
}

/* Adds the driver's name, from the link in sysfs. */
static void add_driver(json_t *object, const struct host *host, const char *path)
{
	char *link = text_format("%s/driver", path), *driver = host_resolve(host, link);

	if (driver && strrchr(driver, '/'))
		json_object_set_new(object, "driver", json_string(strrchr(driver, '/') + 1));
	free(driver);
	free(link);
}

json_t *report_pci(const struct host *host, const char *path)
{
	static const char *const files[] = {
		"vendor",         "device",        "subsystem_vendor",   "subsystem_device",
		"revision",       "numa_node",     "current_link_speed", "current_link_width",
		"max_link_speed", "max_link_width"
	};
	const char *slash = strrchr(path, '/');
	json_t *pci = json_object();
	char *function = text_format("%s/physfn", path), *physical;

	json_object_set_new(pci, "address", json_string(slash ? slash + 1 : path));
	json_object_set_new(pci, "path", json_string(path));
	add_driver(pci, host, path);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		report_line(pci, files[i], host, path, files[i]);
	report_line(pci, "iommu", host, path, "iommu_group/type");
	physical = host_resolve(host, function);
	json_object_set_new(pci, "virtual_function", json_boolean(physical != NULL));
	free(physical);
	free(function);
	return pci;
}
