/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that `anynet check` reads on a host: libraries, the loader's cache, NCCL's settings files, values of variables,
 * configuration spaces of bridges, the kernel's log, texts for the terminal. The first byte selects the kind of the
 * rest.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/check/conf_file.h"
#include "tools/check/kernel_log.h"
#include "tools/check/ld_cache.h"
#include "tools/check/library.h"
#include "tools/check/pci.h"
#include "tools/check/variables.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define KINDS 8 /* of inputs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_library(const uint8_t *data, size_t bytes)
{
	struct library library;
	struct elf_file elf;
	char err[256], name[32];
	int fd = memfd_create("library", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	library_open_name(name, &library);
	if (!elf_file_open(&elf, name, err, sizeof(err)))
		elf_file_defines_version(&elf, "GLIBC_2.34");
	elf_file_close(&elf);
	close(fd);
}

static void read_cache(const char *bytes, size_t size)
{
	struct text_list names = { 0 }, paths = { 0 };

	ld_cache_read(bytes, size, &names, &paths);
	if (names.count != paths.count)
		abort();
	for (size_t i = 0; i < names.count; i++)
		if (strlen(names.items[i]) >= size || strlen(paths.items[i]) >= size)
			abort();
}

static void read_conf(const char *text)
{
	struct conf conf = { .count = 0 };

	conf_parse(&conf, text, "file");
	for (size_t i = 0; i < conf.count; i++) {
		const struct conf_line *line = &conf.lines[i];
		const struct nccl_variable *variable = variable_of(line->name);

		if (variable)
			variable_takes(variable, line->value);
		if (strlen(line->name) >= CONF_TEXT_BYTES || strlen(line->value) >= CONF_TEXT_BYTES)
			abort();
	}
}

/* Printable text is not changed. */
static void print(const char *text)
{
	char *clean = text_printable(text), *again = text_printable(clean);

	for (const char *at = clean; *at; at++) {
		if ((unsigned char)*at < ' ')
			abort();
	}
	if (strcmp(clean, again) != 0)
		abort();
}

static void read_text(unsigned kind, const char *text)
{
	struct xid xid;

	if (kind == 2)
		read_conf(text);
	else if (kind == 3)
		xid_find(text, &xid);
	else if (kind == 4)
		print(text);
	else if (kind == 5)
		variable_takes(&nccl_variables[(uint8_t)*text % nccl_variable_count],
			       *text ? text + 1 : text);
	else
		variable_meant(text);
}

static void read_input(const uint8_t *data, size_t bytes)
{
	char *text;

	switch (data[0] % KINDS) {
	case 0:
		read_library(data + 1, bytes - 1);
		break;
	case 1:
		read_cache((const char *)data + 1, bytes - 1);
		break;
	case 6:
		pci_redirects(data + 1, bytes - 1);
		nccl_version_in((const char *)data + 1, bytes - 1);
		break;
	default:
		text = calloc(1, bytes);
		if (!text)
			abort();
		memcpy(text, data + 1, bytes - 1);
		read_text(data[0] % KINDS, text);
		free(text);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes)
		read_input(data, bytes);
	memory_release(0);
	return 0;
}
