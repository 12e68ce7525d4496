/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of NCCL on this host: which program loads which, and conflicts between them. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define METADATA_BYTES ((size_t)1 << 20)

/* "2.19.3 for CUDA 12.3". */
static const char *version_text(const struct nccl_version *version)
{
	char text[16];

	if (!version->code)
		return "of an unknown version";
	return text_format("%s%s%s", nccl_version_text(version->code, text),
			   *version->cuda ? " for CUDA " : "", version->cuda);
}

static void report_copies(struct check *check)
{
	const struct nccl_copies *copies = &check->copies;
	const struct nccl_copy *by_default = copies_at(copies, &check->host, copies->by_default);

	if (!copies->count && !copies->user_count)
		found(check, CHECK_NOTE, "nccl-none", "no libnccl.so, PyTorch or CuPy was found");
	for (size_t i = 0; i < copies->count; i++) {
		const struct nccl_copy *copy = &copies->list[i];

		if (copy->error)
			found(check, CHECK_NOTE, "nccl-unreadable", "%s cannot be read: %s",
			      copy->path, copy->error);
		else
			found(check, CHECK_OK, "nccl-copy", "NCCL %s in %s%s",
			      version_text(&copy->version), copy->path,
			      copy == by_default ? ": programs without their own copy use it (the "
						   "dynamic loader finds it)"
						 : "");
	}
}

static void report_user(struct check *check, const struct nccl_user *user)
{
	const char *version = version_text(&user->nccl);

	if (!user->uses_nccl) {
		found(check, CHECK_NOTE, "user-without", "%s %s in %s was built without NCCL",
		      user->name, user->version, user->site->path);
	} else if (user->path && !user->nccl.code) {
		found(check, CHECK_WARN, "user-loads-damaged",
		      "%s %s in %s loads %s, which is not a library of NCCL", user->name,
		      user->version, user->site->path, user->path);
		found_why(check, "importing it fails: \"file too short\", \"invalid ELF header\", "
				 "or symbols that are missing");
		found_fix(check,
			  "install it again (pip install --force-reinstall, or git lfs pull)");
	} else if (user->path) {
		found(check, CHECK_OK, "user-loads", "%s %s in %s loads NCCL %s from %s",
		      user->name, user->version, user->site->path, version, user->path);
	} else if (user->nccl.code) {
		found(check, CHECK_OK, "user-loads", "%s %s in %s has NCCL %s inside", user->name,
		      user->version, user->site->path, version);
	} else {
		found(check, CHECK_WARN, "user-finds-none",
		      "%s %s in %s needs libnccl.so.2, which is not found", user->name,
		      user->version, user->site->path);
		found_why(check, "importing it fails, or the parts that need NCCL");
		found_fix(check,
			  "install NCCL for its CUDA%s%s (pip: nvidia-nccl-cu12 and the like), or "
			  "add the directory of libnccl.so.2 to LD_LIBRARY_PATH",
			  *user->cuda ? ", " : "", user->cuda);
	}
}

static const struct nccl_copy *copy_of_wheel(const struct check *check,
					     const struct python_site *site)
{
	return copies_at(&check->copies, &check->host,
			 text_format("%s/nvidia/nccl/lib/libnccl.so.2", site->path));
}

/* Reports a user that loads another copy than the wheel installed beside it. */
static void check_displaced(struct check *check, const struct nccl_user *user)
{
	const struct nccl_copy *own = copy_of_wheel(check, user->site);
	const struct nccl_copy *loaded = copies_at(&check->copies, &check->host, user->path);

	if (own && loaded && own != loaded && own->version.code != loaded->version.code) {
		found(check, CHECK_WARN, "user-displaced",
		      "%s %s loads NCCL %s from %s instead of %s beside it", user->name,
		      user->version, version_text(&loaded->version), loaded->path,
		      version_text(&own->version));
		found_why(check, "hosts with another library search path load another NCCL, and "
				 "different releases do not work together: \"family 0 is neither "
				 "AF_INET nor AF_INET6\", internal error");
		found_fix(check, "remove %.*s from LD_LIBRARY_PATH, or remove that copy",
			  (int)(strrchr(loaded->path, '/') - loaded->path), loaded->path);
	}
}

static void check_cuda(struct check *check, const struct nccl_user *user)
{
	int wants = atoi(user->cuda), has = atoi(user->nccl.cuda);

	if (!wants || !has || wants == has)
		return;
	found(check, CHECK_WARN, "cuda-mixed",
	      "%s %s is for CUDA %s, and the NCCL it loads for CUDA %s", user->name, user->version,
	      user->cuda, user->nccl.cuda);
	found_why(check,
		  "two CUDA runtimes in one process: invalid arguments, unhandled CUDA errors");
	found_fix(check, "install the NCCL for CUDA %d (pip: nvidia-nccl-cu%d)", wants, wants);
}

/* Two packages in one Python load different copies: the first import decides for both. */
static void check_pair(struct check *check, const struct nccl_user *a, const struct nccl_user *b)
{
	if (a->site != b->site || !a->path || !b->path || !strcmp(a->path, b->path) ||
	    a->nccl.code == b->nccl.code)
		return;
	found(check, CHECK_WARN, "users-differ",
	      "%s and %s in %s load different NCCL releases: %s and %s", a->name, b->name,
	      a->site->path, a->path, b->path);
	found_why(check, "in one process the first import determines which is used");
	found_fix(check, "install one release of NCCL for both");
}

static void check_wheels(struct check *check, const struct python_site *site)
{
	char *names = text_list_join(&site->nccl_wheels, 4);
	const struct nccl_copy *file = copy_of_wheel(check, site);
	const char *blank = site->nccl_wheels.count == 1 ? strchr(names, ' ') : NULL;
	const char *version = file ? version_text(&file->version) : "missing";

	if (site->nccl_wheels.count > 1) {
		found(check, CHECK_WARN, "wheels-mixed", "%s are installed side by side in %s",
		      names, site->path);
		found_why(check,
			  "they write the same file, nvidia/nccl/lib/libnccl.so.2: the last one "
			  "installed is active, here %s",
			  version);
		found_fix(check,
			  "pip uninstall all of them, then reinstall the one for PyTorch's CUDA");
	} else if (blank && file && file->version.code &&
		   file->version.code != nccl_version_parse(blank + 1)) {
		found(check, CHECK_WARN, "wheel-overwritten",
		      "%s is installed in %s, but its file is NCCL %s", names, site->path, version);
		found_why(check, "pip lists another release than the one that is loaded");
		found_fix(check, "pip install --force-reinstall %.*s==%s", (int)(blank - names),
			  names, blank + 1);
	}
}

/* Compares the default copy, which programs such as nccl-tests load, with those of PyTorch and CuPy. */
static void check_default(struct check *check)
{
	const struct nccl_copies *copies = &check->copies;
	const struct nccl_copy *by_default = copies_at(copies, &check->host, copies->by_default);

	for (size_t i = 0; by_default && i < copies->user_count; i++) {
		const struct nccl_user *user = &copies->users[i];

		if (!user->nccl.code || user->nccl.code == by_default->version.code)
			continue;
		found(check, CHECK_NOTE, "default-differs",
		      "%s in %s and other programs on this host use different releases of NCCL: a "
		      "test with one does not apply to the other",
		      user->name, user->site->path);
		break;
	}
}

/* LD_PRELOAD takes precedence over all search paths. */
static void check_preload(struct check *check)
{
	const char *list = host_env("LD_PRELOAD"), *text;

	while (list && (text = text_next(&list, ": "))) {
		struct library library;
		char *path = loader_find(&check->loader, text, NULL, NULL);

		library_read(&check->host, path ? path : text, &library);
		if (library.nccl.code) {
			char version[16];

			found(check, CHECK_WARN, "preloaded",
			      "LD_PRELOAD loads NCCL %s (%s) into every program",
			      nccl_version_text(library.nccl.code, version), text);
			found_why(check, "it has precedence over PyTorch's or CuPy's copy and "
					 "LD_LIBRARY_PATH: hosts without it run another release");
			found_fix(check, "unset LD_PRELOAD, or set it on every host, to a release "
					 "that fits the program");
		} else if (!path) {
			found(check, CHECK_NOTE, "preload-missing",
			      "LD_PRELOAD names %s, which the loader does not find", text);
		}
	}
}

/* Returns the version after "==" that PyTorch's metadata requires of the wheel; NULL = none. */
static char *asked_version(const char *metadata, const char *wheel, size_t wheel_bytes)
{
	static const char mark[] = "Requires-Dist: ";
	const char *end;

	for (const char *line = metadata; (line = strstr(line, mark));) {
		line += strlen(mark);
		if (strncmp(line, wheel, wheel_bytes) != 0)
			continue;
		line += wheel_bytes;
		line += strspn(line, " (");
		if (strncmp(line, "==", 2) != 0)
			continue;
		line += 2;
		end = line + strspn(line, "0123456789.");
		return text_copy(line, (size_t)(end - line));
	}
	return NULL;
}

static void check_asked_wheel(struct check *check, const struct python_site *site)
{
	const char *version = python_distribution(&check->host, site->path, "torch");
	char *path =
		version ? text_format("%s/torch-%s.dist-info/METADATA", site->path, version) : NULL;
	char *metadata = path ? host_read(&check->host, path, METADATA_BYTES, NULL) : NULL;

	for (size_t i = 0; metadata && i < site->nccl_wheels.count; i++) {
		const char *wheel = site->nccl_wheels.items[i], *blank = strchr(wheel, ' ');
		char *asked =
			blank ? asked_version(metadata, wheel, (size_t)(blank - wheel)) : NULL;

		if (asked && strcmp(asked, blank + 1) != 0) {
			found(check, CHECK_WARN, "wheel-not-asked",
			      "PyTorch %s in %s requires %.*s %s, but %s is installed", version,
			      site->path, (int)(blank - wheel), wheel, asked, blank + 1);
			found_why(check, "it was built for that release: \"undefined symbol: "
					 "nccl…\", and other hosts may have the required one");
			found_fix(check, "pip install %.*s==%s", (int)(blank - wheel), wheel,
				  asked);
		}
	}
}

void check_nccl(struct check *check)
{
	const struct nccl_copies *copies = &check->copies;

	report_copies(check);
	for (size_t i = 0; i < copies->user_count; i++) {
		report_user(check, &copies->users[i]);
		check_displaced(check, &copies->users[i]);
		check_cuda(check, &copies->users[i]);
		for (size_t j = 0; j < i; j++)
			check_pair(check, &copies->users[j], &copies->users[i]);
	}
	for (size_t i = 0; i < copies->sites.count; i++) {
		check_wheels(check, &copies->sites.list[i]);
		check_asked_wheel(check, &copies->sites.list[i]);
	}
	check_preload(check);
	check_default(check);
}
