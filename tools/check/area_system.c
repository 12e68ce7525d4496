/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL needs of the system or container: shared memory, sysfs, and files named in settings. */
#include "check.h"
#include "trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define AREA "system"
#define MIB  (1ull << 20)
#define SHM_OF_RANK \
	32 /* MiB: shared-memory segments of a rank for its neighbours, without GPU peer-to-peer */

/* Size and free space of /dev/shm in MiB; false = it does not exist. */
static bool shm_size(const struct check *check, unsigned long long *total, unsigned long long *left)
{
	char *name = host_open_name(&check->host, "/dev/shm");
	struct statvfs fs;
	bool there = name && !statvfs(name, &fs);

	free(name);
	if (!there)
		return false;
	*total = (unsigned long long)fs.f_blocks * fs.f_frsize / MIB;
	*left = (unsigned long long)fs.f_bavail * fs.f_frsize / MIB;
	return true;
}

static void check_shm(struct check *check)
{
	const char *ranks_text = host_env("LOCAL_WORLD_SIZE");
	long ranks = ranks_text ? strtol(ranks_text, NULL, 10) : 0;
	unsigned long long total, left, wanted;

	if (!host_is_directory(&check->host, "/dev/shm") && *check->host.root)
		return; /* a directory tree has no mounts */
	if (!shm_size(check, &total, &left)) {
		finding_add(&check->report, CHECK_WARN, AREA, "shm-none", "/dev/shm does not exist");
		finding_why(&check->report, "ranks of one host and data loaders exchange data "
					    "through it");
		finding_fix(&check->report,
			    "mount -t tmpfs tmpfs /dev/shm; in a container --ipc=host");
		return;
	}
	wanted = (unsigned long long)(ranks > 2 ? ranks : 2) * SHM_OF_RANK;
	if (left >= wanted) {
		finding_add(&check->report, CHECK_OK, AREA, "shm",
			    "/dev/shm has %llu MiB, %llu of them free", total, left);
		return;
	}
	finding_add(&check->report, ranks > 1 ? CHECK_WARN : CHECK_NOTE, AREA, "shm-small",
		    "/dev/shm has %llu MiB, %llu of them free", total, left);
	finding_why(&check->report,
		    "NCCL's ranks on this host and data loaders share memory in it: \"Error "
		    "while creating shared memory segment\", bus errors");
	finding_fix(&check->report,
		    "docker run --shm-size=8g or --ipc=host, in Kubernetes an emptyDir "
		    "with medium: Memory; remove /dev/shm/nccl-* of dead jobs");
}

static void check_sysfs(struct check *check)
{
	if (host_is_directory(&check->host, "/sys/class"))
		return;
	finding_add(&check->report, CHECK_ERROR, AREA, "sys-none", "/sys is not mounted here");
	finding_why(&check->report,
		    "NCCL reads the PCI tree there (\"Could not find real path of "
		    "/sys/class/pci_bus\"), and InfiniBand is not found without it");
	finding_fix(&check->report, "mount -t sysfs sysfs /sys; mount the host's into the "
				    "container, read-only");
}

/* Returns the directory of a path, or ".". The caller frees it. */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? text_copy(path, slash > path ? (size_t)(slash - path) : 1)
		     : text_copy(".", 1);
}

static void check_read_file(struct check *check, const char *variable, const char *effect)
{
	const char *path = host_env(variable);

	if (!path || host_is_file(&check->host, path))
		return;
	finding_add(&check->report, CHECK_ERROR, AREA, "file-named-missing",
		    "%s=%s: no such file", variable, path);
	finding_why(&check->report, "%s", effect);
	finding_fix(&check->report,
		    "unset %s (also in /etc/nccl.conf and ~/.nccl.conf), or name an existing "
		    "file, also in the container",
		    variable);
}

static void check_written_file(struct check *check, const char *variable)
{
	const char *path = host_env(variable);
	char *directory;

	/* Relative names are skipped. %h and %p stand for host and process. */
	if (!path || *path != '/')
		return;
	directory = directory_of(path);
	if (!strchr(directory, '%') && !host_is_directory(&check->host, directory)) {
		finding_add(&check->report, CHECK_WARN, AREA, "file-nowhere",
			    "%s=%s: there is no directory %s", variable, path, directory);
		finding_why(&check->report, "NCCL does not create it: its output is lost, or "
					    "goes to the standard output");
		finding_fix(&check->report, "mkdir -p %s on every host, or use another path",
			    directory);
	}
	free(directory);
}

static void check_files(struct check *check)
{
	check_read_file(
		check, "NCCL_TOPO_FILE",
		"NCCL fails to start (\"Could not open XML topology file\") or continues with "
		"the topology it detects");
	check_read_file(check, "NCCL_GRAPH_FILE", "NCCL fails to start, or searches by itself");
	check_written_file(check, "NCCL_DEBUG_FILE");
	check_written_file(check, "NCCL_TOPO_DUMP_FILE");
	check_written_file(check, "NCCL_GRAPH_DUMP_FILE");
}

static void check_visible(struct check *check)
{
	const char *value = getenv("CUDA_VISIBLE_DEVICES");

	if (!value || (*value && strcmp(value, "-1") != 0 && strcmp(value, "NoDevFiles") != 0))
		return;
	finding_add(&check->report, CHECK_ERROR, AREA, "gpus-hidden",
		    "CUDA_VISIBLE_DEVICES=%s hides all GPUs", value);
	finding_why(&check->report, "empty is not unset: \"No CUDA GPUs are available\", \"no "
				    "CUDA-capable device is detected\"");
	finding_fix(&check->report,
		    "unset it, or list the GPUs; with Slurm request them (--gres=gpu:N)");
}

/* Libraries that are not loaded leave gaps in the results, so this is reported. */
static void check_trust(struct check *check)
{
	struct text_list directories = trust_left_out();
	char *text = text_list_join(&directories, 8);

	if (directories.count) {
		finding_add(&check->report, CHECK_NOTE, AREA, "library-path-not-trusted",
			    "others can write to %s of LD_LIBRARY_PATH: this check, which runs as "
			    "root, has loaded nothing from there",
			    text);
		finding_why(&check->report, "code of theirs would run as root");
		finding_fix(&check->report, "run the check as the user of the job");
	}
	free(text);
	text_list_free(&directories);
}

void check_system(struct check *check)
{
	check_trust(check);
	check_sysfs(check);
	check_shm(check);
	check_files(check);
	check_visible(check);
}
