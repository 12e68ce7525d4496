/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL needs of the system or container: shared memory, sysfs, and files named in settings. */
#include "check.h"
#include "trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define MIB (1ull << 20)
#define SHM_OF_RANK \
	32 /* MiB: shared-memory segments of a rank for its neighbours, without GPU peer-to-peer */

/* Size and free space of /dev/shm in MiB; false = it does not exist. */
static bool shm_size(const struct check *check, unsigned long long *total, unsigned long long *left)
{
	char *name = host_open_name(&check->host, "/dev/shm");
	struct statvfs fs;

	if (!name || statvfs(name, &fs))
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
		found(check, CHECK_WARN, "shm-none", "/dev/shm does not exist");
		found_why(check, "ranks of one host and data loaders exchange data through it");
		found_fix(check, "mount -t tmpfs tmpfs /dev/shm; in a container --ipc=host");
		return;
	}
	wanted = (unsigned long long)(ranks > 2 ? ranks : 2) * SHM_OF_RANK;
	if (left >= wanted) {
		found(check, CHECK_OK, "shm", "/dev/shm has %llu MiB, %llu of them free", total,
		      left);
		return;
	}
	found(check, ranks > 1 ? CHECK_WARN : CHECK_NOTE, "shm-small",
	      "/dev/shm has %llu MiB, %llu of them free", total, left);
	found_why(check, "NCCL's ranks on this host and data loaders share memory in it: \"Error "
			 "while creating shared memory segment\", bus errors");
	found_fix(check, "docker run --shm-size=8g or --ipc=host, in Kubernetes an emptyDir with "
			 "medium: Memory; remove /dev/shm/nccl-* of dead jobs");
}

static void check_sysfs(struct check *check)
{
	if (host_is_directory(&check->host, "/sys/class"))
		return;
	found(check, CHECK_ERROR, "sys-none", "/sys is not mounted here");
	found_why(check, "NCCL reads the PCI tree there (\"Could not find real path of "
			 "/sys/class/pci_bus\"), and InfiniBand is not found without it");
	found_fix(check,
		  "mount -t sysfs sysfs /sys; mount the host's into the container, read-only");
}

/* Returns the path of the file that a variable names; NULL = none, or not known. */
static const char *path_in(const struct check *check, const char *variable)
{
	const char *name = host_env(variable);

	return name ? host_path(&check->host, name) : NULL;
}

/* Returns the directory of an absolute path. */
static const char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return text_copy(path, slash > path ? (size_t)(slash - path) : 1);
}

static void check_read_file(struct check *check, const char *variable, const char *effect)
{
	const char *path = path_in(check, variable);

	if (!path || host_is_file(&check->host, path))
		return;
	found(check, CHECK_ERROR, "file-named-missing", "%s=%s: there is no file %s", variable,
	      host_env(variable), path);
	found_why(check, "%s", effect);
	found_fix(check,
		  "unset %s (also in /etc/nccl.conf and ~/.nccl.conf), or name an existing file, "
		  "also in the container",
		  variable);
}

static void check_written_file(struct check *check, const char *variable)
{
	const char *path = path_in(check, variable);
	const char *directory;

	if (!path)
		return;
	directory = directory_of(path);
	/* %h and %p stand for host and process. */
	if (!strchr(directory, '%') && !host_is_directory(&check->host, directory)) {
		found(check, CHECK_WARN, "file-nowhere", "%s=%s: there is no directory %s",
		      variable, host_env(variable), directory);
		found_why(check, "NCCL does not create it: its output is lost, or goes to the "
				 "standard output");
		found_fix(check, "mkdir -p %s on every host, or use another path", directory);
	}
}

static void check_files(struct check *check)
{
	check_read_file(check, "NCCL_TOPO_FILE",
			"NCCL fails to start (\"Could not open XML topology file\") or continues "
			"with the topology it detects");
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
	found(check, CHECK_ERROR, "gpus-hidden", "CUDA_VISIBLE_DEVICES=%s hides all GPUs", value);
	found_why(check, "empty is not unset: \"No CUDA GPUs are available\", \"no CUDA-capable "
			 "device is detected\"");
	found_fix(check, "unset it, or list the GPUs; with Slurm request them (--gres=gpu:N)");
}

/* Libraries that are not loaded leave gaps in the results, so this is reported. */
static void check_trust(struct check *check)
{
	struct text_list directories = trust_left_out();

	if (directories.count) {
		found(check, CHECK_NOTE, "library-path-not-trusted",
		      "others can write to %s of LD_LIBRARY_PATH: this check, which runs as root, "
		      "has loaded nothing from there",
		      text_list_join(&directories, 8));
		found_why(check, "code of theirs would run as root");
		found_fix(check, "run the check as the user of the job");
	}
}

void check_system(struct check *check)
{
	check_trust(check);
	check_sysfs(check);
	check_shm(check);
	check_files(check);
	check_visible(check);
}
