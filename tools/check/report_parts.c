/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for all parts of a host's report; see report.h. */
#include "report.h"

#include <string.h>

void report_line(json_t *object, const char *name, const struct host *host, const char *dir,
		 const char *file)
{
	char *line = host_line(host, text_format("%s/%s", dir, file));

	if (line && *line)
		json_object_set_new(object, name, document_text(line));
}

/* Adds the driver's name, from the link in sysfs. */
static void add_driver(json_t *object, const struct host *host, const char *path)
{
	char *driver = host_resolve(host, text_format("%s/driver", path));

	if (driver && strrchr(driver, '/'))
		json_object_set_new(object, "driver", json_string(strrchr(driver, '/') + 1));
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

	json_object_set_new(pci, "address", json_string(slash ? slash + 1 : path));
	json_object_set_new(pci, "path", json_string(path));
	add_driver(pci, host, path);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		report_line(pci, files[i], host, path, files[i]);
	report_line(pci, "iommu", host, path, "iommu_group/type");
	json_object_set_new(pci, "virtual_function",
			    json_boolean(host_resolve(host, text_format("%s/physfn", path))));
	return pci;
}
