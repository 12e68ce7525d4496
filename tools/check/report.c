/* SPDX-License-Identifier: Apache-2.0 */
/* A host's report; see report.h. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scrub.h"
#include "tools/shared/now.h"
#include "tools/shared/probe.h"

#define REPORT_VERSION 1

static json_t *devices(const struct anynet_probe *probe)
{
	json_t *list = json_array();

	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:i, s:b, s:b, s:b, s:o}", "name",
						dev->name, "transport",
						dev->transport == ANYNET_TRANSPORT_TCP ? "TCP"
						: dev->is_roce                         ? "RoCE"
							       : "InfiniBand",
						"mbps", dev->speed_mbps, "cuda",
						(dev->ptr_support & ANYNET_PTR_CUDA) != 0, "dmabuf",
						(dev->ptr_support & ANYNET_PTR_DMABUF) != 0,
						"force_flush", dev->force_flush, "gpu_memory",
						document_text(dev->gpu_memory)));
	}
	return list;
}

/* Returns NCCL's and anynet's variables. Secrets, and unknown variables with such names, are listed without their
 * values. */
static json_t *settings(void)
{
	json_t *all = json_object();

	for (char **variable = environ; *variable; variable++) {
		const char *value = strchr(*variable, '=');
		char *name;

		if (!value ||
		    (strncmp(*variable, "NCCL_", 5) != 0 && strncmp(*variable, "ANYNET_", 7) != 0))
			continue;
		name = text_copy(*variable, (size_t)(value - *variable));
		json_object_set_new(all, name,
				    document_text(scrub_is_known(name) ? value + 1
								       : "(not shown)"));
	}
	return all;
}

static json_t *document(const struct check *check)
{
	char day[NOW_UTC_BYTES];

	now_utc(day)[strlen("2026-01-02")] = 0;
	return json_pack("{s:i, s:{s:s}, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "report",
			 REPORT_VERSION, "anynet", "version", ANYNET_VERSION, "day", day, "system",
			 report_system(check), "libraries", report_libraries(check), "adapters",
			 report_adapters(check), "gpus", report_gpus(check), "settings", settings(),
			 "verdicts", probe_candidates(check->probe), "devices",
			 devices(check->probe), "check", findings_json(&check->report));
}

/* Readable by the owner only, who may inspect the report before sending it. */
static FILE *open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && fchmod(fd, 0600))
		errno = 0; /* The file belongs to another user, who can read it anyway. */
	if (!file && fd >= 0)
		close(fd);
	return file;
}

static int write_json(const json_t *json, FILE *file)
{
	int ret = json_dumpf(json, file, JSON_INDENT(2)) ? -EIO : 0;

	if (fputc('\n', file) == EOF || fflush(file) || ferror(file))
		ret = errno ? -errno : -EIO;
	return ret;
}

int report_write(const struct check *check, const char *path, bool keep_names)
{
	json_t *all = document(check), *told;
	struct scrub scrub;
	FILE *file;
	int ret;

	scrub_open(&scrub, &check->host, keep_names);
	told = scrub_json(&scrub, all);
	json_decref(all);
	errno = 0;
	file = strcmp(path, "-") ? open_file(path) : stdout;
	ret = file ? write_json(told, file) : -errno;
	if (file && file != stdout && fclose(file) && !ret)
		ret = -errno;
	json_decref(told);
	return ret;
}
