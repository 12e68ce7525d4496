/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a shared library's file; see library.h. */
#include "library.h"

#include <stdio.h>
#include <string.h>

#define NEEDED_MAX   256
#define VERSIONS_MAX 256

static const char own_mark[] = "anynet plugin ";

static void read_constants(const struct elf_file *elf, struct library *library)
{
	const unsigned char *data;
	size_t bytes = elf_file_constants(elf, &data);
	const char *text = (const char *)data, *own;

	if (!bytes)
		return;
	library->nccl = nccl_version_in(text, bytes);
	if (!library->net_apis)
		return;
	own = memmem(text, bytes, own_mark, strlen(own_mark));
	if (own) {
		library->anynet = true;
		nccl_version_word(own + strlen(own_mark), text + bytes, ". ",
				  library->anynet_version, sizeof(library->anynet_version));
	}
}

static void read_tables(const struct elf_file *elf, struct library *library)
{
	for (int api = NET_API_OLDEST; api <= NET_API_NEWEST; api++) {
		char name[32];

		snprintf(name, sizeof(name), "ncclNetPlugin_v%d", api);
		if (elf_file_dynamic_symbol(elf, name, STT_OBJECT))
			library->net_apis |= 1u << api;
	}
}

static struct text_list split_path(const char *path)
{
	struct text_list list = { 0 };
	char *directory;

	while (path && (directory = text_next(&path, ":")))
		text_list_add(&list, directory);
	return list;
}

static void read_elf(const struct elf_file *elf, struct library *library)
{
	const char *soname = elf_file_dynamic(elf, DT_SONAME, 0);

#ifdef OUR_MACHINE
	if (elf->machine != OUR_MACHINE) {
		library->error =
			text_format("it is for another processor (ELF machine %u)", elf->machine);
		return;
	}
#endif
	snprintf(library->soname, sizeof(library->soname), "%s", soname ? soname : "");
	for (size_t i = 0; i < NEEDED_MAX; i++) {
		const char *name = elf_file_dynamic(elf, DT_NEEDED, i);

		if (!name)
			break;
		text_list_add(&library->needed, text_dup(name));
	}
	for (size_t i = 0; i < VERSIONS_MAX; i++) {
		const char *file, *version = elf_file_needed_version(elf, i, &file);

		if (!version)
			break;
		text_list_add(&library->versions, text_format("%s %s", file, version));
	}
	read_tables(elf, library);
	/* A library that needs libnccl does not contain NCCL, and may be huge. */
	if (!text_list_has(&library->needed, "libnccl.so.2") || library->net_apis)
		read_constants(elf, library);
	library->rpath = split_path(elf_file_dynamic(elf, DT_RPATH, 0));
	library->runpath = split_path(elf_file_dynamic(elf, DT_RUNPATH, 0));
}

void library_open_name(const char *name, struct library *library)
{
	struct elf_file elf;
	char err[512];

	*library = (struct library){ 0 };
	if (elf_file_open(&elf, name, err, sizeof(err))) {
		library->error = text_copy(err, sizeof(err));
	} else {
		read_elf(&elf, library);
		elf_file_close(&elf);
	}
}

void library_read(const struct host *host, const char *path, struct library *library)
{
	char *name = host_open_name(host, path);

	if (name)
		library_open_name(name, library);
	else
		*library = (struct library){ .error = text_format("%s does not exist", path) };
}

bool library_has_version(const struct host *host, const char *path, const char *version)
{
	char *name = host_open_name(host, path);
	struct elf_file elf;
	char err[512];
	bool has = true;

	if (name && !elf_file_open(&elf, name, err, sizeof(err))) {
		has = elf_file_defines_version(&elf, version);
		elf_file_close(&elf);
	}
	return has;
}
