/* SPDX-License-Identifier: Apache-2.0 */
/* ELF64 reader: sections, symbols and .dynamic. Every offset is checked against the file's size. */
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSIONS_MAX 4096                  /* limit for damaged files */
#define SECTION_MAX  ((uint64_t)256 << 20) /* limit of bytes per section */

/* Opens a regular file that is large enough. Returns its descriptor, or -1 with the reason in err. */
static int open_file(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0) {
		snprintf(err, err_bytes, "cannot open %s: %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		snprintf(err, err_bytes, "%s is %s", path,
			 S_ISDIR(st.st_mode) ? "a directory" : "not an ELF file");
		close(fd);
		return -1;
	}
	elf->size = (size_t)st.st_size;
	return fd;
}

/* Returns a copy of `bytes` bytes at `offset` of the file, which the caller frees, or NULL if out of range. */
static void *bytes_at(const struct elf_file *elf, uint64_t offset, uint64_t bytes)
{
	unsigned char *copy;

	if (offset > elf->size || bytes > elf->size - offset)
		return NULL;
	copy = malloc(bytes ? bytes : 1);
	for (uint64_t got = 0; copy && got < bytes;) {
		ssize_t n = pread(elf->fd, copy + got, bytes - got, (off_t)(offset + got));

		if (n <= 0) {
			free(copy);
			return NULL;
		}
		got += (uint64_t)n;
	}
	return copy;
}

static bool is_usable(const Elf64_Ehdr *header)
{
	return !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
}

static int read_names(struct elf_file *elf, const Elf64_Ehdr *header)
{
	const Elf64_Shdr *names = &elf->sections[header->e_shstrndx];

	if (!names->sh_size || names->sh_size > SECTION_MAX)
		return -1;
	elf->section_names = bytes_at(elf, names->sh_offset, names->sh_size);
	elf->section_names_bytes = names->sh_size;
	return elf->section_names && !elf->section_names[names->sh_size - 1] ? 0 : -1;
}

static int read_headers(struct elf_file *elf, const Elf64_Ehdr *header, const char *path, char *err,
			size_t err_bytes)
{
	if (!is_usable(header)) {
		snprintf(err, err_bytes, "%s is not a little-endian ELF64 file", path);
		return -1;
	}
	elf->machine = header->e_machine;
	if (header->e_shnum && header->e_shentsize == sizeof(Elf64_Shdr) &&
	    header->e_shstrndx < header->e_shnum)
		elf->sections = bytes_at(elf, header->e_shoff,
					 header->e_shnum * (uint64_t)sizeof(Elf64_Shdr));
	if (!elf->sections) {
		snprintf(err, err_bytes, "%s has no usable section headers", path);
		return -1;
	}
	elf->section_count = header->e_shnum;
	if (read_names(elf, header)) {
		snprintf(err, err_bytes, "%s has no usable section names", path);
		return -1;
	}
	elf->loaded = calloc(elf->section_count, sizeof(*elf->loaded));
	return 0;
}

static int check_header(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	Elf64_Ehdr *header = bytes_at(elf, 0, sizeof(*header));
	int ret;

	if (!header) {
		snprintf(err, err_bytes, "%s cannot be read", path);
		return -1;
	}
	ret = read_headers(elf, header, path, err, err_bytes);
	free(header);
	return ret;
}

int elf_file_open(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	*elf = (struct elf_file){ .fd = -1 };
	elf->fd = open_file(elf, path, err, err_bytes);
	if (elf->fd < 0)
		return -1;
	if (check_header(elf, path, err, err_bytes)) {
		elf_file_close(elf);
		return -1;
	}
	return 0;
}

void elf_file_close(struct elf_file *elf)
{
	if (elf->fd >= 0) {
		for (size_t i = 0; elf->loaded && i < elf->section_count; i++)
			free(elf->loaded[i]);
		free(elf->loaded);
		free(elf->section_names);
		free(elf->sections);
		close(elf->fd);
	}
	*elf = (struct elf_file){ .fd = -1 };
}

/* Returns the section's bytes, at most SECTION_MAX of them; NULL = none. */
static const unsigned char *section_data(const struct elf_file *elf, size_t i)
{
	const Elf64_Shdr *section = &elf->sections[i];
	uint64_t bytes = section->sh_size < SECTION_MAX ? section->sh_size : SECTION_MAX;

	if (section->sh_type == SHT_NOBITS || section->sh_offset > elf->size ||
	    section->sh_size > elf->size - section->sh_offset)
		return NULL;
	if (elf->loaded && !elf->loaded[i])
		elf->loaded[i] = bytes_at(elf, section->sh_offset, bytes);
	return elf->loaded ? elf->loaded[i] : NULL;
}

static const Elf64_Shdr *find_section(const struct elf_file *elf, const char *name)
{
	for (size_t i = 0; i < elf->section_count; i++) {
		const Elf64_Shdr *section = &elf->sections[i];

		if (section->sh_name < elf->section_names_bytes &&
		    !strcmp(elf->section_names + section->sh_name, name))
			return section;
	}
	return NULL;
}

/* Returns the section's header, and its first byte in *data. NULL if there is no such section with bytes in the file, or
 * if it exceeds SECTION_MAX. */
static const Elf64_Shdr *section_of(const struct elf_file *elf, const char *name,
				    const unsigned char **data)
{
	const Elf64_Shdr *section = find_section(elf, name);

	if (!section || section->sh_size > SECTION_MAX)
		return NULL;
	*data = section_data(elf, (size_t)(section - elf->sections));
	return *data ? section : NULL;
}

size_t elf_file_constants(const struct elf_file *elf, const unsigned char **data)
{
	const Elf64_Shdr *section = find_section(elf, ".rodata");

	*data = section ? section_data(elf, (size_t)(section - elf->sections)) : NULL;
	if (!*data)
		return 0;
	return section->sh_size < SECTION_MAX ? section->sh_size : SECTION_MAX;
}

/* Returns a string table that ends in a zero byte, so that every offset into it is a string. */
static const char *string_section(const struct elf_file *elf, const char *name, size_t *bytes)
{
	const unsigned char *strings;
	const Elf64_Shdr *section = section_of(elf, name, &strings);

	if (!section || !section->sh_size || strings[section->sh_size - 1])
		return NULL;
	*bytes = section->sh_size;
	return (const char *)strings;
}

static const Elf64_Sym *find_symbol(const struct elf_file *elf, const char *table,
				    const char *string_table, const char *name, int type)
{
	const unsigned char *symbols = NULL;
	const Elf64_Shdr *symtab = section_of(elf, table, &symbols);
	size_t bytes = 0;
	const char *strings = string_section(elf, string_table, &bytes);

	if (!symtab || !strings)
		return NULL;
	for (size_t i = 0; i < symtab->sh_size / sizeof(Elf64_Sym); i++) {
		const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)symbols + i;
		if (ELF64_ST_TYPE(symbol->st_info) == type && symbol->st_shndx != SHN_UNDEF &&
		    symbol->st_name < bytes && !strcmp(strings + symbol->st_name, name))
			return symbol;
	}
	return NULL;
}

const Elf64_Sym *elf_file_symbol(const struct elf_file *elf, const char *name, int type)
{
	return find_symbol(elf, ".symtab", ".strtab", name, type);
}

const Elf64_Sym *elf_file_dynamic_symbol(const struct elf_file *elf, const char *name, int type)
{
	return find_symbol(elf, ".dynsym", ".dynstr", name, type);
}

const char *elf_file_dynamic(const struct elf_file *elf, Elf64_Sxword tag, size_t index)
{
	const unsigned char *entries = NULL;
	const Elf64_Shdr *dynamic = section_of(elf, ".dynamic", &entries);
	size_t bytes = 0;
	const char *strings = string_section(elf, ".dynstr", &bytes);

	if (!dynamic || !strings)
		return NULL;
	for (size_t i = 0; i < dynamic->sh_size / sizeof(Elf64_Dyn); i++) {
		const Elf64_Dyn *entry = (const Elf64_Dyn *)(const void *)entries + i;
		if (entry->d_tag == DT_NULL)
			break;
		if (entry->d_tag == tag && entry->d_un.d_val < bytes && !index--)
			return strings + entry->d_un.d_val;
	}
	return NULL;
}

/* Copies `each` bytes at `at` of a section, if they are inside it. */
static bool take(const unsigned char *section, uint64_t section_bytes, uint64_t at, void *to,
		 size_t each)
{
	if (at > section_bytes || section_bytes - at < each)
		return false;
	memcpy(to, section + at, each);
	return true;
}

const char *elf_file_needed_version(const struct elf_file *elf, size_t index, const char **file)
{
	const unsigned char *entries = NULL;
	const Elf64_Shdr *section = section_of(elf, ".gnu.version_r", &entries);
	size_t bytes = 0, steps = 0;
	const char *strings = string_section(elf, ".dynstr", &bytes);
	Elf64_Verneed need = { .vn_next = 0 };
	uint64_t at = 0;

	if (!section || !strings)
		return NULL;
	do {
		Elf64_Vernaux one = { .vna_next = 0 };
		uint64_t one_at;

		at += need.vn_next;
		if (!take(entries, section->sh_size, at, &need, sizeof(need)))
			break;
		one_at = at + need.vn_aux;
		for (unsigned i = 0; i < need.vn_cnt && steps++ < VERSIONS_MAX; i++) {
			one_at += one.vna_next;
			if (!take(entries, section->sh_size, one_at, &one, sizeof(one)))
				break;
			if (!(one.vna_flags & VER_FLG_WEAK) && one.vna_name < bytes &&
			    need.vn_file < bytes && !index--) {
				*file = strings + need.vn_file;
				return strings + one.vna_name;
			}
		}
	} while (need.vn_next && steps++ < VERSIONS_MAX);
	return NULL;
}

bool elf_file_defines_version(const struct elf_file *elf, const char *version)
{
	const unsigned char *entries = NULL;
	const Elf64_Shdr *section = section_of(elf, ".gnu.version_d", &entries);
	size_t bytes = 0, steps = 0;
	const char *strings = string_section(elf, ".dynstr", &bytes);
	Elf64_Verdef definition = { .vd_next = 0 };
	uint64_t at = 0;

	if (!section || !strings)
		return true;
	do {
		Elf64_Verdaux name;

		at += definition.vd_next;
		if (!take(entries, section->sh_size, at, &definition, sizeof(definition)))
			break;
		if (take(entries, section->sh_size, at + definition.vd_aux, &name, sizeof(name)) &&
		    name.vda_name < bytes && !strcmp(strings + name.vda_name, version))
			return true;
	} while (definition.vd_next && steps++ < VERSIONS_MAX);
	return false;
}
