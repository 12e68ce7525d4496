/* SPDX-License-Identifier: Apache-2.0 */
/* ELF64 reader: sections and .symtab of a file on disk, every offset checked against its size. */
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* `count` elements of `each` bytes at `offset` lie inside the file and are aligned for access. */
static bool in_file(const struct elf_file *elf, uint64_t offset, uint64_t count, uint64_t each)
{
	return offset <= elf->size && count <= (elf->size - offset) / each && offset % 8 == 0;
}

static int map_file(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(err, err_bytes, "cannot open %s: %s", path, strerror(errno));
		return -1;
	}
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		snprintf(err, err_bytes, "%s is not an ELF file", path);
		close(fd);
		return -1;
	}
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED) {
		snprintf(err, err_bytes, "cannot map %s: %s", path, strerror(errno));
		return -1;
	}
	elf->bytes = bytes;
	elf->size = (size_t)st.st_size;
	return 0;
}

static int check_header(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	const Elf64_Ehdr *header = (const void *)elf->bytes;

	if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB) {
		snprintf(err, err_bytes, "%s is not a little-endian ELF64 file", path);
		return -1;
	}
	if (!header->e_shnum || header->e_shentsize != sizeof(Elf64_Shdr) ||
	    header->e_shstrndx >= header->e_shnum ||
	    !in_file(elf, header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr))) {
		snprintf(err, err_bytes, "%s has no usable section headers", path);
		return -1;
	}
	elf->sections = (const void *)(elf->bytes + header->e_shoff);
	elf->section_count = header->e_shnum;

	const Elf64_Shdr *names = &elf->sections[header->e_shstrndx];
	if (names->sh_offset > elf->size || names->sh_size > elf->size - names->sh_offset ||
	    !names->sh_size || elf->bytes[names->sh_offset + names->sh_size - 1]) {
		snprintf(err, err_bytes, "%s has no usable section names", path);
		return -1;
	}
	elf->section_names = (const char *)(elf->bytes + names->sh_offset);
	elf->section_names_bytes = names->sh_size;
	return 0;
}

int elf_file_open(struct elf_file *elf, const char *path, char *err, size_t err_bytes)
{
	*elf = (struct elf_file){ 0 };
	if (map_file(elf, path, err, err_bytes))
		return -1;
	if (check_header(elf, path, err, err_bytes)) {
		elf_file_close(elf);
		return -1;
	}
	return 0;
}

void elf_file_close(struct elf_file *elf)
{
	if (elf->bytes)
		munmap((void *)(uintptr_t)elf->bytes, elf->size);
	*elf = (struct elf_file){ 0 };
}

const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name,
				   const unsigned char **data)
{
	for (size_t i = 0; i < elf->section_count; i++) {
		const Elf64_Shdr *section = &elf->sections[i];
		if (section->sh_name >= elf->section_names_bytes ||
		    strcmp(elf->section_names + section->sh_name, name))
			continue;
		if (section->sh_type == SHT_NOBITS || section->sh_offset > elf->size ||
		    section->sh_size > elf->size - section->sh_offset)
			return NULL;
		*data = elf->bytes + section->sh_offset;
		return section;
	}
	return NULL;
}

const Elf64_Sym *elf_file_symbol(const struct elf_file *elf, const char *name, int type)
{
	const unsigned char *symbols, *strings;
	const Elf64_Shdr *symtab = elf_file_section(elf, ".symtab", &symbols);
	const Elf64_Shdr *strtab = elf_file_section(elf, ".strtab", &strings);

	if (!symtab || !strtab || !in_file(elf, symtab->sh_offset, 0, 1) || !strtab->sh_size ||
	    strings[strtab->sh_size - 1])
		return NULL;
	for (size_t i = 0; i < symtab->sh_size / sizeof(Elf64_Sym); i++) {
		const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)symbols + i;
		if (ELF64_ST_TYPE(symbol->st_info) == type && symbol->st_shndx != SHN_UNDEF &&
		    symbol->st_name < strtab->sh_size &&
		    !strcmp((const char *)strings + symbol->st_name, name))
			return symbol;
	}
	return NULL;
}
