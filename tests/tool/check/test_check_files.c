/* SPDX-License-Identifier: Apache-2.0 */
/* How `anynet check` reads files: paths below a root, the loader's cache, versions, settings files, configuration
 * spaces, logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/sysfs_tree.h"
#include "tools/check/conf_file.h"
#include "tools/check/host.h"
#include "tools/check/kernel_log.h"
#include "tools/check/ld_cache.h"
#include "tools/check/library.h"
#include "tools/check/loader.h"
#include "tools/check/pci.h"
#include "tools/shared/memory.h"

static struct host tree_host(void)
{
	return (struct host){ .root = tree_root(), .home = "" };
}

static void assert_resolves(const char *path, const char *expected)
{
	struct host host = tree_host();
	char *real = host_resolve(&host, path);

	if (expected)
		assert_string_equal(real, expected);
	else
		assert_null(real);
}

static void test_links_stay_within_the_root(void **state)
{
	(void)state;
	tree_file("etc/real", "here");
	tree_link("/etc/real", "etc/absolute");
	tree_link("../etc/real", "etc/relative");
	tree_link("../../../../../../etc/real", "etc/far");
	tree_link("loop", "etc/loop");
	tree_link("/nowhere", "etc/dangling");
	assert_resolves("/etc/real", "/etc/real");
	assert_resolves("/etc/absolute", "/etc/real");
	assert_resolves("/etc//./relative", "/etc/real");
	assert_resolves("/etc/far", "/etc/real");
	assert_resolves("/../../etc/real", "/etc/real");
	assert_resolves("/", "/");
	assert_resolves("/etc/loop", NULL);
	assert_resolves("/etc/dangling", NULL);
	assert_resolves("etc/real", NULL);
	assert_resolves("", NULL);
}

static void test_files_are_read_in_bounds(void **state)
{
	struct host host = tree_host();
	size_t bytes = 0;
	char *text;

	(void)state;
	tree_file("a", " 12 \nsecond\n");
	tree_file("empty", "");
	text = host_read(&host, "/a", 4, &bytes);
	assert_string_equal(text, " 12 ");
	assert_int_equal(bytes, 4);
	text = host_line(&host, "/a");
	assert_string_equal(text, "12");
	assert_int_equal(host_number(&host, "/a", -1), 12);
	assert_int_equal(host_number(&host, "/empty", -1), -1);
	assert_int_equal(host_number(&host, "/none", -1), -1);
	assert_null(host_read(&host, "/", 4, NULL));
}

/* A loader cache with these pairs of names and paths, in glibc's format. */
struct cache {
	char bytes[1024];
	size_t size;
};

static void put_word(struct cache *cache, size_t at, uint32_t word)
{
	memcpy(cache->bytes + at, &word, sizeof(word));
}

static void make_cache(struct cache *cache, size_t start, const char *const *pairs, uint32_t count)
{
	size_t text = 48 + count * 24;

	memset(cache, 0, sizeof(*cache));
	memcpy(cache->bytes + start, "glibc-ld.so.cache1.1", 20);
	put_word(cache, start + 20, count);
	for (uint32_t i = 0; i < count; i++) {
		size_t entry = start + 48 + i * 24;

#if defined(__aarch64__)
		put_word(cache, entry, 0x0a03);
#else
		put_word(cache, entry, 0x0303);
#endif
		for (uint32_t j = 0; j < 2; j++) {
			put_word(cache, entry + 4 + 4 * j, (uint32_t)text);
			memcpy(cache->bytes + start + text, pairs[2 * i + j],
			       strlen(pairs[2 * i + j]) + 1);
			text += strlen(pairs[2 * i + j]) + 1;
		}
	}
	cache->size = start + text;
}

static bool read_cache(const char *bytes, size_t size, struct text_list *names,
		       struct text_list *paths)
{
	*names = *paths = (struct text_list){ 0 };
	return ld_cache_read(bytes, size, names, paths);
}

static void test_the_loaders_cache_is_read(void **state)
{
	static const char *const pairs[] = { "libnccl.so.2", "/a/libnccl.so.2", "libb.so", "/b" };
	struct text_list names, paths;
	struct cache cache;

	(void)state;
	make_cache(&cache, 0, pairs, 2);
	assert_true(read_cache(cache.bytes, cache.size, &names, &paths));
	assert_string_equal(text_list_join(&names, 9), "libnccl.so.2, libb.so");
	assert_string_equal(text_list_join(&paths, 9), "/a/libnccl.so.2, /b");
	/* After the table of the old format, with one entry, at a multiple of eight. */
	make_cache(&cache, 32, pairs, 1);
	memcpy(cache.bytes, "ld.so-1.7.0", 11);
	put_word(&cache, 12, 1);
	assert_true(read_cache(cache.bytes, cache.size, &names, &paths));
	assert_string_equal(text_list_join(&names, 9), "libnccl.so.2");
	assert_string_equal(text_list_join(&paths, 9), "/a/libnccl.so.2");
}

static void test_broken_caches_are_refused(void **state)
{
	static const char *const pairs[] = { "libnccl.so.2", "/a/libnccl.so.2", "libb.so", "/b" };
	struct text_list names, paths;
	struct cache cache;

	(void)state;
	make_cache(&cache, 0, pairs, 1);
	for (size_t size = 0; size < cache.size; size++) {
		char *part = malloc(size ? size : 1);

		assert_non_null(part);
		memcpy(part, cache.bytes, size);
		assert_false(read_cache(part, size, &names, &paths));
		assert_int_equal(names.count, 0);
		free(part);
	}
	put_word(&cache, 20, UINT32_MAX);
	assert_false(read_cache(cache.bytes, cache.size, &names, &paths));
	put_word(&cache, 20, 1);
	put_word(&cache, 52, UINT32_MAX);
	assert_false(read_cache(cache.bytes, cache.size, &names, &paths));
	assert_int_equal(paths.count, 0);
	/* What precedes the damage is kept. */
	make_cache(&cache, 0, pairs, 2);
	put_word(&cache, 48 + 24 + 8, UINT32_MAX);
	assert_false(read_cache(cache.bytes, cache.size, &names, &paths));
	assert_string_equal(text_list_join(&paths, 9), "/a/libnccl.so.2");
	assert_int_equal(names.count, 1);
}

static void write_cache(const struct cache *cache, const char *path)
{
	FILE *file;

	tree_file(path, "");
	file = fopen(tree_path(path), "w");
	assert_non_null(file);
	assert_int_equal(fwrite(cache->bytes, 1, cache->size, file), cache->size);
	assert_int_equal(fclose(file), 0);
}

static void assert_found(const struct loader *loader, const char *name, const char *expected)
{
	char *found = loader_find(loader, name, NULL, NULL);

	if (expected)
		assert_string_equal(found, expected);
	else
		assert_null(found);
}

static void test_the_loader_searches_in_order(void **state)
{
	static const char *const pairs[] = { "liba.so", "/cached/liba.so", "libgone.so",
					     "/cached/libgone.so" };
	struct host host = tree_host();
	struct loader loader;
	struct cache cache;

	(void)state;
	make_cache(&cache, 0, pairs, 2);
	write_cache(&cache, "etc/ld.so.cache");
	tree_file("cached/liba.so", "x");
	tree_file("usr/lib/liba.so", "x");
	tree_file("usr/lib/libgone.so", "x");
	tree_file("first/libc.so", "x");
	tree_file("second/liba.so", "x");
	/* A library for another word size is skipped. */
	tree_file("first/liba.so", "\177ELF\001\001\001xxxxxxxxxxxxx");
	unsetenv("LD_LIBRARY_PATH");
	loader_open(&loader, &host);
	assert_found(&loader, "liba.so", "/cached/liba.so");
	assert_found(&loader, "libgone.so", "/usr/lib/libgone.so");
	assert_found(&loader, "/second/liba.so", "/second/liba.so");
	assert_found(&loader, "/second/none.so", NULL);
	assert_found(&loader, "none.so", NULL);
	setenv("LD_LIBRARY_PATH", "/none:/first;/second", 1);
	loader_open(&loader, &host);
	assert_found(&loader, "liba.so", "/second/liba.so");
	assert_found(&loader, "libc.so", "/first/libc.so");
	unsetenv("LD_LIBRARY_PATH");
}

static void test_versions_are_found(void **state)
{
	static const char good[] =
		"x\0NCCL version 2.19.3 compiled\0NCCL version 2.19.3+cuda12.3\0y";
	static const char bare[] = "NCCL version 2.7.8";
	static const char none[] = "NCCL version %d.%d NCCL version 0.0.0 NCCL version 999.1";
	struct nccl_version version = nccl_version_in(good, sizeof(good) - 1);
	char text[16];

	(void)state;
	assert_int_equal(version.code, 21903);
	assert_string_equal(version.cuda, "12.3");
	version = nccl_version_in(bare, sizeof(bare) - 1);
	assert_int_equal(version.code, 20708);
	assert_string_equal(version.cuda, "");
	assert_int_equal(nccl_version_in(none, sizeof(none) - 1).code, 0);
	assert_int_equal(nccl_version_in(good, 5).code, 0);
	assert_int_equal(nccl_version_parse("2.30.7"), 23007);
	assert_int_equal(nccl_version_parse("2.30"), 23000);
	assert_int_equal(nccl_version_parse("two"), 0);
	assert_string_equal(nccl_version_text(23007, text), "2.30.7");
}

static void expect_lines(const char *text, const char *expected)
{
	struct conf conf = { .count = 0 };
	char *seen = text_dup("");

	conf_parse(&conf, text, "file");
	for (size_t i = 0; i < conf.count; i++) {
		const struct conf_line *line = &conf.lines[i];

		seen = text_format("%s%u:%.9s=%.9s:%d;", seen, line->number, line->name,
				   line->value, line->flaw);
	}
	assert_string_equal(seen, expected);
}

static void test_settings_files_are_read_as_nccl_does(void **state)
{
	char *noise = memory_get(4096);

	(void)state;
	expect_lines("# comment\n\nNCCL_A=1\n NCCL_B=2\nNCCL_C\nNCCL_D='x'\nPATH=x\nNCCL_E=5\r\n"
		     "NCCL_F==eth0",
		     "3:NCCL_A=1:0;4: NCCL_B=2:2;5:NCCL_C=:1;6:NCCL_D='x':4;"
		     "7:PATH=x:6;8:NCCL_E=5\r:3;9:NCCL_F==eth0:0;");
	memset(noise, 'N', 4000);
	expect_lines(noise, "1:NNNNNNNNN=:1;");
	noise[2000] = '=';
	expect_lines(noise, "1:NNNNNNNNN=NNNNNNNNN:5;");
}

static void test_acs_is_read_from_configuration_space(void **state)
{
	unsigned char config[4096] = { 0 };

	(void)state;
	assert_false(pci_redirects(config, sizeof(config)));
	/* At 0x100 another capability, then ACS at 0x148. */
	memcpy(config + 0x100, "\x01\x00\x82\x14", 4);
	memcpy(config + 0x148, "\x0d\x00\x01\x00\xff\x00\x1d\x00", 8);
	assert_true(pci_redirects(config, sizeof(config)));
	assert_false(pci_redirects(config, 0x14c));
	assert_false(pci_redirects(config, 64)); /* all that users other than root may read */
	config[0x14e] = 0x11;
	assert_false(pci_redirects(config, sizeof(config)));
	/* A cyclic list of capabilities must not loop forever. */
	memcpy(config + 0x100, "\x01\x00\x02\x10", 4);
	assert_false(pci_redirects(config, sizeof(config)));
}

static void test_distances_have_nccls_names(void **state)
{
	static const char one[] = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/";
	struct host host = tree_host();
	char a[128], b[128];

	(void)state;
	snprintf(a, sizeof(a), "%s0000:3c:00.0/0000:3d:00.0", one);
	snprintf(b, sizeof(b), "%s0000:3c:01.0/0000:3e:00.0", one);
	assert_int_equal(pci_distance(&host, a, b), PCI_PIX);
	snprintf(b, sizeof(b), "%s0000:3c:01.0/0000:3e:00.0/0000:3f:00.0/0000:40:00.0", one);
	assert_int_equal(pci_distance(&host, a, b), PCI_PXB);
	assert_int_equal(pci_distance(&host, a,
				      "/sys/devices/pci0000:3a/0000:3a:01.0/0000:50:00.0"),
			 PCI_PHB);
	tree_file("sys/devices/pci0000:80/0000:81:00.0/numa_node", "1\n");
	assert_int_equal(pci_distance(&host, a, "/sys/devices/pci0000:80/0000:81:00.0"), PCI_SYS);
	assert_int_equal(pci_distance(&host, "/", "/"), PCI_PHB);
}

static void test_xids_are_found(void **state)
{
	struct xid xid;

	(void)state;
	assert_false(xid_find("", &xid));
	assert_false(xid_find("NVRM: Xid (PCI:0000:3b:00", &xid));
	assert_false(
		xid_find("NVRM: Xid (PCI:a name that is longer than any address is): 3", &xid));
	assert_true(
		xid_find("a\nNVRM: Xid (PCI:0000:3b:00): 31, x\nNVRM: Xid (PCI:0000:3c:00): 79,",
			 &xid));
	assert_int_equal(xid.count, 2);
	assert_int_equal(xid.number, 79);
	assert_string_equal(xid.device, "0000:3c:00");
	assert_non_null(xid_meaning(79));
	assert_null(xid_meaning(31));
}

/* The versions that this program requires: each once, and all of them defined by the running libc. */
static void test_versions_of_libraries_are_read(void **state)
{
	struct host host = { .root = "", .home = "" };
	struct loader loader;
	struct library own;
	char *libc;

	(void)state;
	loader_open(&loader, &host);
	library_read(&host, "/proc/self/exe", &own);
	libc = loader_find(&loader, "libc.so.6", NULL, NULL);
	assert_null(own.error);
	assert_non_null(libc);
	assert_true(own.versions.count > 1);
	for (size_t i = 0; i < own.versions.count; i++) {
		const char *blank = strchr(own.versions.items[i], ' ');

		assert_non_null(blank);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(own.versions.items[i], own.versions.items[j]);
		if (!strncmp(own.versions.items[i], "libc.so.6 ", 10))
			assert_true(library_has_version(&host, libc, blank + 1));
	}
	assert_false(library_has_version(&host, libc, "GLIBC_99.9"));
	assert_true(library_has_version(&host, "/not/there", "GLIBC_99.9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tree(test_links_stay_within_the_root),
		with_tree(test_files_are_read_in_bounds),
		cmocka_unit_test(test_the_loaders_cache_is_read),
		cmocka_unit_test(test_broken_caches_are_refused),
		with_tree(test_the_loader_searches_in_order),
		cmocka_unit_test(test_versions_are_found),
		cmocka_unit_test(test_versions_of_libraries_are_read),
		cmocka_unit_test(test_settings_files_are_read_as_nccl_does),
		cmocka_unit_test(test_acs_is_read_from_configuration_space),
		with_tree(test_distances_have_nccls_names),
		cmocka_unit_test(test_xids_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
