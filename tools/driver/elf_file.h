/* SPDX-License-Identifier: Apache-2.0 */
/* Reads symbols that dlsym cannot see (.symtab) from an ELF file on disk. */
#ifndef ANYNET_ELF_FILE_H
#define ANYNET_ELF_FILE_H

#include <elf.h>
#include <stddef.h>

struct elf_file {
	const unsigned char *bytes; /* the whole file, mapped */
	size_t size;
	const Elf64_Shdr *sections;
	size_t section_count;
	const char *section_names;
	size_t section_names_bytes;
};

/* Maps and checks the file. Returns 0 or -1 with a sentence in err; unmap with elf_file_close. */
int elf_file_open(struct elf_file *elf, const char *path, char *err, size_t err_bytes);
void elf_file_close(struct elf_file *elf);

/* The section's header and, in *data, its first byte; NULL if there is no such section with bytes
 * in the file. */
const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name,
				   const unsigned char **data);

/* Look up `name` of ELF type `type` (STT_OBJECT, STT_FUNC) in .symtab, local symbols included. */
const Elf64_Sym *elf_file_symbol(const struct elf_file *elf, const char *name, int type);

#endif
