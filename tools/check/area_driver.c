/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's driver, and CUDA versions on this host that need a newer one. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* The oldest driver that supports a major version of CUDA. */
static const struct {
	int cuda;
	int driver; /* first component of the version */
	const char *text;
} oldest_drivers[] = {
	{ 10, 410, "410.48" },
	{ 11, 450, "450.80.02" },
	{ 12, 525, "525.60.13" },
	{ 13, 580, "580.65.06" },
};

/* Returns the loaded driver's version, "535.104.05"; NULL = none is loaded. */
static char *driver_version(const struct host *host)
{
	const char *line = host_line(host, "/proc/driver/nvidia/version");
	char *word;

	/* "NVRM version: NVIDIA UNIX [Open] … Kernel Module [for …]  535.104.05  Sat Aug …" */
	while (line && (word = text_next(&line, " \t"))) {
		if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.'))
			return word;
	}
	return NULL;
}

/* Returns libcuda of a cuda-compat package, if the dynamic loader finds it first. Such a package
 * runs newer CUDA versions than the driver, on data centre GPUs. */
static char *compat_library(const struct check *check)
{
	char *path = loader_find(&check->loader, "libcuda.so.1", NULL, NULL);

	return path && strstr(path, "/compat/") ? path : NULL;
}

/* Returns the driver that this CUDA version needs; NULL = the present one suffices, as far as known. */
static const char *needed_driver(const char *driver, const char *cuda)
{
	for (size_t i = 0; i < ARRAY_SIZE(oldest_drivers); i++) {
		if (atoi(cuda) == oldest_drivers[i].cuda && atoi(driver) < oldest_drivers[i].driver)
			return oldest_drivers[i].text;
	}
	return NULL;
}

static void explain_old(struct check *check)
{
	found_why(check, "CUDA fails: \"CUDA driver version is insufficient for CUDA runtime "
			 "version\", unhandled cuda error");
	found_fix(check, "install a newer driver, or packages for an older CUDA (for data centre "
			 "GPUs: a cuda-compat package on LD_LIBRARY_PATH)");
}

/* What the job of this environment does not use is only a note. */
static void check_driver_for(struct check *check, const char *driver, const char *who,
			     const char *cuda, bool used)
{
	const char *needed = needed_driver(driver, cuda);

	if (!needed)
		return;
	found(check, used ? CHECK_ERROR : CHECK_NOTE, "driver-old",
	      "%s is for CUDA %s, which needs driver %s or newer; this host has %s", who, cuda,
	      needed, driver);
	explain_old(check);
}

/* Returns "12.2.140" for a file libcudart.so.12.2.140; "" = other names. */
static const char *runtime_version(const char *path)
{
	static const char name[] = "libcudart.so.";
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, name, strlen(name)) ? slash + 1 + strlen(name) : "";
}

/* Returns the CUDA runtimes on the library search path, each once, links resolved. PyTorch and CuPy
 * have their own. */
static struct text_list runtimes(const struct check *check)
{
	static const char *const names[] = { "libcudart.so.13", "libcudart.so.12",
					     "libcudart.so.11.0", "libcudart.so.10.2",
					     "libcudart.so" };
	struct text_list files = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *path = loader_find(&check->loader, names[i], NULL, NULL);
		char *real = path ? host_resolve(&check->host, path) : NULL;

		if (real && *runtime_version(real))
			text_list_add_new(&files, real);
	}
	return files;
}

/* Many hosts have several runtimes, and each program uses the one it was built for. It is a problem
 * only if none of them works. */
static void check_runtimes(struct check *check, const char *driver)
{
	struct text_list files = runtimes(check);
	bool any_runs = false;

	for (size_t i = 0; i < files.count; i++)
		any_runs |= !driver || !needed_driver(driver, runtime_version(files.items[i]));
	for (size_t i = 0; i < files.count; i++) {
		const char *version = runtime_version(files.items[i]);
		const char *needed = driver ? needed_driver(driver, version) : NULL;

		if (!needed) {
			found(check, CHECK_OK, "runtime", "CUDA runtime %s in %s", version,
			      files.items[i]);
			continue;
		}
		found(check, any_runs ? CHECK_NOTE : CHECK_WARN, "runtime-new",
		      "CUDA runtime %s in %s needs driver %s or newer; this host has %s", version,
		      files.items[i], needed, driver);
		explain_old(check);
	}
}

/* Whether LD_LIBRARY_PATH names the directory of the file. */
static bool is_asked_for(const struct check *check, const char *path)
{
	return text_list_has(&check->loader.library_path,
			     text_copy(path, (size_t)(strrchr(path, '/') - path)));
}

static void check_versions(struct check *check, const char *driver)
{
	const struct nccl_copies *copies = &check->copies;
	const struct nccl_copy *by_default = copies_at(copies, &check->host, copies->by_default);
	char *compat = compat_library(check);

	found(check, CHECK_OK, "driver", "driver %s", driver);
	if (compat) {
		found(check, CHECK_NOTE, "driver-compat",
		      "programs use %s, which may run newer CUDA versions than the driver", compat);
		return;
	}
	for (size_t i = 0; i < copies->user_count; i++) {
		const struct nccl_user *user = &copies->users[i];

		check_driver_for(check, driver,
				 text_format("%s %s in %s", user->name, user->version,
					     user->site->path),
				 *user->cuda ? user->cuda : user->nccl.cuda, user->site->active);
	}
	if (by_default)
		check_driver_for(check, driver, by_default->path, by_default->version.cuda,
				 is_asked_for(check, copies->by_default));
	check_runtimes(check, driver);
}

bool check_driver(struct check *check, const struct text_list *gpus)
{
	char *driver = driver_version(&check->host);

	if (driver) {
		check_versions(check, driver);
	} else {
		check_runtimes(check, NULL);
		if (gpus->count) {
			found(check, CHECK_WARN, "driver-none",
			      "GPU %s is present, but no NVIDIA driver is loaded", gpus->items[0]);
			found_why(check, "CUDA finds no device");
			found_fix(check, "install the driver, or modprobe nvidia");
		}
	}
	return driver;
}
