/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ELF64 file on disk without loading it: sections, symbols (also .symtab, which dlsym cannot
 * see), and what it needs. The file may hold anything: every offset is checked. */
#ifndef ANYNET_ELF_FILE_H
#define ANYNET_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_file {
	const unsigned char *bytes; /* the whole file; NULL: it is read section by section */
	size_t size;
	bool mapped;            /* and to be unmapped */
	int fd;                 /* of one that is read by sections */
	unsigned char **loaded; /* its sections, as far as they were asked for */
	unsigned machine;       /* EM_… */
	const Elf64_Shdr *sections;
	size_t section_count;
	const char *section_names;
	size_t section_names_bytes;
};

/* Maps and checks the file. Returns 0 or -1 with a sentence in err; unmap with elf_file_close. */
int elf_file_open(struct elf_file *elf, const char *path, char *err, size_t err_bytes);
void elf_file_close(struct elf_file *elf);

/* The same without mapping it: sections are read as they are asked for, so that a file that shrinks
 * meanwhile does no harm. Of one with more than 256 MiB these are read. */
int elf_file_open_by_sections(struct elf_file *elf, const char *path, char *err, size_t err_bytes);

/* The same for a file that is in memory, aligned to 8 bytes and there until it is closed. `path` is
 * for messages. */
int elf_file_take(struct elf_file *elf, const void *bytes, size_t size, const char *path, char *err,
		  size_t err_bytes);

/* The section's header and, in *data, its first byte; NULL if there is no such section with bytes
 * in the file, or it has more than 256 MiB. */
const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name,
				   const unsigned char **data);

/* The constants (.rodata), at most 256 MiB of them. Returns how many bytes; 0 = there are none. */
size_t elf_file_constants(const struct elf_file *elf, const unsigned char **data);

/* Look up `name` of ELF type `type` (STT_OBJECT, STT_FUNC) in .symtab, local symbols included. */
const Elf64_Sym *elf_file_symbol(const struct elf_file *elf, const char *name, int type);

/* The same in .dynsym: what dlsym would find. */
const Elf64_Sym *elf_file_dynamic_symbol(const struct elf_file *elf, const char *name, int type);

/* The text of the `index`th entry with this tag (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH) of
 * .dynamic; NULL = there are no more. Points into the file. */
const char *elf_file_dynamic(const struct elf_file *elf, Elf64_Sxword tag, size_t index);

/* The `index`th version that it needs of another library, "GLIBC_2.34" of *file "libc.so.6"; NULL =
 * there are no more. What it can do without is left out. */
const char *elf_file_needed_version(const struct elf_file *elf, size_t index, const char **file);

/* Does it define this version? One without any versions counts as one that does. */
bool elf_file_defines_version(const struct elf_file *elf, const char *version);

#endif
