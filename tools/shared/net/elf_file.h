/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ELF64 file without loading it: sections, symbols (also .symtab, which dlsym cannot see)
 * and dependencies. The file is not trusted: every offset is checked. */
#ifndef ANYNET_ELF_FILE_H
#define ANYNET_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_file {
	size_t size;
	int fd;                 /* -1 = not open */
	unsigned char **loaded; /* sections read so far, by index */
	unsigned machine;       /* EM_… */
	Elf64_Shdr *sections;
	size_t section_count;
	char *section_names;
	size_t section_names_bytes;
};

/* Checks the file. Sections are read on demand, so that a file truncated meanwhile does no harm; at most their first
 * 256 MiB. Returns 0, or -1 with a sentence in err. Release it with elf_file_close. */
int elf_file_open(struct elf_file *elf, const char *path, char *err, size_t err_bytes);
void elf_file_close(struct elf_file *elf);

/* Returns the constants (.rodata), at most 256 MiB, in *data, and their size in bytes; 0 = none. */
size_t elf_file_constants(const struct elf_file *elf, const unsigned char **data);

/* Looks up `name` of ELF type `type` (STT_OBJECT, STT_FUNC) in .symtab, local symbols included. */
const Elf64_Sym *elf_file_symbol(const struct elf_file *elf, const char *name, int type);

/* As elf_file_symbol, in .dynsym: finds what dlsym would find. */
const Elf64_Sym *elf_file_dynamic_symbol(const struct elf_file *elf, const char *name, int type);

/* Returns the text of the `index`th entry with this tag (DT_NEEDED, DT_SONAME, DT_RPATH,
 * DT_RUNPATH) of .dynamic, valid until elf_file_close; NULL = no more entries. */
const char *elf_file_dynamic(const struct elf_file *elf, Elf64_Sxword tag, size_t index);

/* Returns the `index`th symbol version required of another library, such as "GLIBC_2.34" of *file
 * "libc.so.6"; NULL = no more. Skips weak requirements. */
const char *elf_file_needed_version(const struct elf_file *elf, size_t index, const char **file);

/* True if the file defines this symbol version, or no versions at all. */
bool elf_file_defines_version(const struct elf_file *elf, const char *version);

#endif
