/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built plugin under the rules of every range of releases (tools/check/ranges.h), without a GPU: the names that
 * each passes to dlopen and the result, all tables that it could use, also through shims, the other symbols that it
 * looks for in the library, and the unloads. The table is compared with what a real libnccl asks for: each one on this
 * host, and those in LIBNCCL_FILES, separated by ':'. PROGRAM NET 0, with the net's directory in LD_LIBRARY_PATH.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <support/capture.h>
#include <support/flow.h>
#include <support/harness.h>
#include <support/link.h>
#include <support/nccl_rules.h>
#include <support/peer.h>

#include <nccl_net/util.h>

#include "real_nccl.h"
#include "tools/check/releases.h"

#define OURS_OLDEST 5
#define OURS_NEWEST 12
#define NAMINGS     4
#define BYTES       5000

/* --- the search --- */

/* Names passed to dlopen, in order, up to the first that exists; by naming. "-": none, NCCL continues without a
 * plugin. */
struct search {
	const char *value;            /* NCCL_NET_PLUGIN; NULL = unset, "/" = the plugin's path */
	const char *names[NAMINGS];   /* NULL = as by default */
	const char *with_none_word;   /* from 2.28 on; NULL = as before */
	const char *with_static_word; /* from 2.22 on; NULL = as before */
};

#define DEFAULT_NAME "libnccl-net.so"
#define ALIAS        "libnccl-net-anynet.so"

static const struct search searches[] = {
	{ NULL, { NULL, NULL, NULL, NULL }, NULL, NULL },
	{ "", { NULL, NULL, NULL, "-" }, NULL, NULL },
	{ "anynet", { NULL, ALIAS, "anynet " ALIAS, "anynet " ALIAS }, NULL, NULL },
	{ ALIAS, { NULL, "libnccl-net-" ALIAS ".so", ALIAS, ALIAS }, NULL, NULL },
	{ "/", { NULL, "libnccl-net-/.so", "/", "/" }, NULL, NULL },
	{ "nowhere",
	  { NULL, "libnccl-net-nowhere.so", "nowhere libnccl-net-nowhere.so",
	    "nowhere libnccl-net-nowhere.so" },
	  NULL,
	  NULL },
	{ "nowhere,,anynet,nowhere",
	  { NULL, "libnccl-net-nowhere,,anynet,nowhere.so",
	    "nowhere,,anynet,nowhere libnccl-net-nowhere,,anynet,nowhere.so",
	    "nowhere libnccl-net-nowhere.so anynet " ALIAS },
	  NULL,
	  NULL },
	{ "libnowhere.so",
	  { NULL, "libnccl-net-libnowhere.so.so", "libnowhere.so libnccl-net-libnowhere.so.so",
	    "libnowhere.so" },
	  NULL,
	  NULL },
	{ "None",
	  { NULL, "libnccl-net-None.so", "None libnccl-net-None.so", "None libnccl-net-None.so" },
	  "-",
	  NULL },
	{ "stat",
	  { NULL, "libnccl-net-stat.so", "stat libnccl-net-stat.so", "stat libnccl-net-stat.so" },
	  NULL,
	  "-" },
};

static const char *expected_names(const struct search *search, const struct release_range *range)
{
	const char *names = search->names[range->naming];

	if (search->with_none_word && range->none_word)
		return search->with_none_word;
	/* The range that begins with 2.21 has both; it is shown like the newer ones. */
	if (search->with_static_word && range->to >= 22200)
		return search->with_static_word;
	return names ? names : DEFAULT_NAME;
}

/* `tried` as words, with "/" for the path of the plugin. */
static void write_names(const struct text_list *tried, const char *path, char *text, size_t bytes)
{
	size_t used = 0;

	snprintf(text, bytes, "-");
	for (size_t i = 0; i < tried->count; i++) {
		const char *at = strstr(tried->items[i], path);
		int before = at ? (int)(at - tried->items[i]) : (int)strlen(tried->items[i]);

		used += (size_t)snprintf(text + used, bytes - used, "%s%.*s%s%s", i ? " " : "",
					 before, tried->items[i], at ? "/" : "",
					 at ? at + strlen(path) : "");
		check(used < bytes);
	}
}

static bool same_file(const char *a, const char *b)
{
	struct stat of_a, of_b;

	return !stat(a, &of_a) && !stat(b, &of_b) && of_a.st_dev == of_b.st_dev &&
	       of_a.st_ino == of_b.st_ino;
}

/* The newest table of the opened file that the release knows; 0 = none. */
static int newest_table(const struct release_range *range, void *lib)
{
	char symbol[32];

	for (int api = range->api_newest; api >= range->api_oldest; api--) {
		snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", api);
		if (dlsym(lib, symbol))
			return api;
	}
	return 0;
}

/* The files really exist, or not, for the loader that NCCL uses; with that table. */
static void open_names(const struct release_range *range, const struct plugin_outcome *outcome)
{
	bool opened = false;

	for (size_t i = 0; i < outcome->tried.count; i++) {
		const char *name = outcome->tried.items[i];
		void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		struct link_map *map;

		if (!lib)
			continue;
		check_that(i + 1 == outcome->tried.count, "%s is there, and more is tried", name);
		check(!dlinfo(lib, RTLD_DI_LINKMAP, &map));
		check_that(outcome->file && same_file(map->l_name, outcome->file),
			   "%s is %s, not %s", name, map->l_name,
			   outcome->file ? outcome->file : "nothing");
		check_int(newest_table(range, lib), outcome->api);
		opened = true;
	}
	check(opened == (outcome->file != NULL));
}

struct one_search {
	const struct release_range *range;
	const struct search *search;
	const char *path;
};

static void search_once(int fd, void *arg)
{
	const struct one_search *one = arg;
	const struct release_range *range = one->range;
	const char *value = one->search->value;
	struct host host = { .root = "", .home = "" };
	struct plugin_outcome outcome;
	struct loader loader;
	char names[2000];

	(void)fd;
	if (value && !strcmp(value, "/"))
		value = one->path;
	loader_open(&loader, &host);
	plugin_resolve(range, &loader, value, NULL, &outcome);
	write_names(&outcome.tried, one->path, names, sizeof(names));
	check_that(!strcmp(names, expected_names(one->search, range)),
		   "NCCL from %d on, NCCL_NET_PLUGIN=%s: '%s' is tried, not '%s'", range->from,
		   value ? value : "(unset)", names, expected_names(one->search, range));
	check((outcome.api == 0) == (!outcome.file || range->api_newest < OURS_OLDEST));
	open_names(range, &outcome);
}

static void test_search(struct test_net *net)
{
	for (size_t i = 0; i < release_range_count; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(searches); j++) {
			struct one_search one = { &release_ranges[i], &searches[j], net->spec };
			struct peer peer;

			peer_start(&peer, search_once, &one);
			peer_wait_ok(&peer);
		}
	}
}

/* --- tables --- */

struct reach {
	const char *spec;
	const struct nccl_release *release;
};

static void use(struct test_net *net)
{
	struct link link;

	check_ok(driver_properties(net->driver, 0, &net->props));
	link_open(net, &link);
	link_check(net, &link, BYTES);
	link_close(net, &link);
}

static void reach_once(int fd, void *arg)
{
	const struct reach *reach = arg;
	struct nccl_choice choice;

	(void)fd;
	setenv("NCCL_NET", "IB", 1);
	unsetenv("ANYNET_TRANSPORT");
	capture_allow_warn();
	nccl_choose(reach->release, reach->spec, "IB", capture_logger, &choice);
	check_that(choice.driver, "NCCL %s: no v%d", reach->release->version,
		   reach->release->only_abi);
	check_int(driver_abi(choice.driver), reach->release->only_abi);
	check_that(!choice.refused, "NCCL %s, v%d, '%s': %s", reach->release->version,
		   reach->release->only_abi, choice.name, choice.refused);
	struct test_net chosen = { .spec = reach->spec,
				   .abi = reach->release->only_abi,
				   .driver = choice.driver,
				   .ctx = choice.ctx };
	use(&chosen);
	check_ok(driver_finalize(choice.driver, choice.ctx));
	driver_close(choice.driver);
}

/* Natively or through a shim: as if the newer tables did not exist. */
static void test_every_table_it_knows(struct test_net *net)
{
	struct nccl_release release;
	int reached = 0;

	for (size_t i = 0; nccl_release(i, &release); i++) {
		for (int abi = release.abi_newest; abi >= release.abi_oldest; abi--) {
			struct reach reach = { net->spec, &release };
			struct peer peer;

			release.only_abi = abi;
			peer_start(&peer, reach_once, &reach);
			peer_wait_ok(&peer);
			reached++;
		}
	}
	check(reached > OURS_NEWEST - OURS_OLDEST);
}

/* Other plugins that releases look for in the library. It has none, and shows this by not exporting the symbol
 * (net-api.md §1.1). */
static void test_other_plugins(struct test_net *net)
{
	static const struct {
		const char *prefix;
		int oldest, newest;
	} others[] = {
		{ "ncclCollNetPlugin_v", 4, 12 }, /* with each version of the net API */
		{ "ncclTunerPlugin_v", 1, 6 },    /* from 2.21 on */
		{ "ncclProfiler_v", 1, 6 },       /* 2.28 */
		{ "ncclGinPlugin_v", 11, 14 },    /* 2.28.7 */
		{ "ncclRmaPlugin_v", 13, 14 },    /* 2.30 */
		{ "ncclNetPlugin_v", 1, 4 },      /* 2.11 and older */
		{ "ncclNetPlugin_v", 13, 14 },    /* none yet */
	};
	void *lib = dlopen(net->spec, RTLD_NOW | RTLD_LOCAL);
	char symbol[40];

	check_that(lib, "%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		for (int version = others[i].newest; version >= others[i].oldest; version--) {
			snprintf(symbol, sizeof(symbol), "%s%d", others[i].prefix, version);
			check_that(!dlsym(lib, symbol), "%s has %s", net->spec, symbol);
		}
	}
	dlclose(lib);
}

/* --- unloads --- */

/* 2.22 and 2.23 do not call init after a reload; 2.8 to 2.21 never unload. */
static void test_used_again_without_init(struct test_net *net)
{
	char err[400];

	net->abi = 8;
	net_open(net);
	use(net);
	driver_close(net->driver);
	net->driver = driver_open(net->spec, 8, err, sizeof(err));
	check_that(net->driver, "%s", err);
	use(net);
	net_close(net);
}

/* From 2.21 on the tuner's loader, from 2.28 on those of the profiler and GIN hold the library as well: theirs is the
 * last dlclose, before or after the net is opened again. */
static void test_held_by_other_loaders(struct test_net *net)
{
	for (int i = 0; i < 4; i++) {
		void *tuner = dlopen(net->spec, RTLD_NOW | RTLD_LOCAL), *gin;

		net_open(net);
		gin = dlopen(net->spec, RTLD_NOW | RTLD_LOCAL);
		check(tuner && gin);
		use(net);
		dlclose(i & 1 ? tuner : gin);
		net_close(net);
		if (i & 2)
			net_open(net);
		dlclose(i & 1 ? gin : tuner);
		if (i & 2)
			net_close(net);
	}
}

/* --- a real libnccl --- */

/* Is the text, with its terminating zero, anywhere in the file? */
static bool has_text(const struct file_bytes *file, const char *text)
{
	return memmem(file->bytes, file->size, text, strlen(text) + 1) != NULL;
}

/* Does any text begin like this? */
static bool has_beginning(const struct file_bytes *file, const char *text)
{
	return memmem(file->bytes, file->size, text, strlen(text)) != NULL;
}

/* Returns the table that this one uses. */
static int compare_tables(const struct file_bytes *file, const struct nccl_copy *copy, void *ours)
{
	const struct release_range *range = release_range_of(copy->version.code);
	int taken = 0;

	check_that(range, "%s is NCCL %d", copy->path, copy->version.code);
	for (int api = 1; api < 30; api++) {
		bool known = api >= range->api_oldest && api <= range->api_newest;
		char symbol[32];

		snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", api);
		check_that(has_text(file, symbol) == known, "%s: NCCL %d %s %s", copy->path,
			   copy->version.code, known ? "does not know" : "knows", symbol);
		check_that(!dlsym(ours, symbol) == (api < OURS_OLDEST || api > OURS_NEWEST), "%s",
			   symbol);
		if (known && dlsym(ours, symbol))
			taken = api;
	}
	check_that(taken || range->api_newest < OURS_OLDEST, "%s: NCCL %d takes no table of ours",
		   copy->path, copy->version.code);
	check_that(!range->none_word || has_text(file, "none"), "%s: no 'none'", copy->path);
	check_that(copy->version.code < 22200 || has_text(file, "STATIC_PLUGIN"),
		   "%s: no STATIC_PLUGIN", copy->path);
	check_that(range->naming == NAMING_FIXED || has_text(file, "NCCL_NET_PLUGIN"),
		   "%s: no NCCL_NET_PLUGIN", copy->path);
	/* A text that is copied whole may be in the code, eight letters at a time; a beginning or a format is not. */
	check_that(has_text(file, "libnccl-net") || has_text(file, DEFAULT_NAME) ||
			   has_text(file, "libnccl-net-%s.so"),
		   "%s: no %s", copy->path, DEFAULT_NAME);
	check_that(has_beginning(file, "NCCL_NET_PLUGIN list ") == (range->naming == NAMING_LIST),
		   "%s: NCCL %d, and NCCL_NET_PLUGIN is %s list", copy->path, copy->version.code,
		   range->naming == NAMING_LIST ? "no" : "a");
	return taken;
}

/* Names of plugins in the file: "ncclXyz_v7". The library may export nets only. */
static unsigned compare_plugins(const struct file_bytes *file, void *ours)
{
	static const char start[] = "\0nccl";
	const char *end = (const char *)file->bytes + file->size;
	unsigned asked = 0;

	for (const char *at = (const char *)file->bytes;
	     (at = memmem(at, (size_t)(end - at), start, sizeof(start) - 1)); at++) {
		char symbol[64] = "", letters[48];
		int version, used = 0;

		snprintf(symbol, sizeof(symbol), "%.*s",
			 (int)(end - at - 1 < 60 ? end - at - 1 : 60), at + 1);
		if (sscanf(symbol, "%47[A-Za-z]_v%d%n", letters, &version, &used) != 2 ||
		    symbol[used])
			continue;
		asked++;
		check_that(!dlsym(ours, symbol) ||
				   (!strcmp(letters, "ncclNetPlugin") && version >= OURS_OLDEST),
			   "the plugin answers for %s", symbol);
	}
	return asked;
}

static void test_real_libnccl(struct test_net *net)
{
	struct host host = { .root = "", .home = "" };
	struct nccl_copies copies;
	struct loader loader;
	unsigned compared = 0;
	void *ours = dlopen(net->spec, RTLD_NOW | RTLD_LOCAL);

	check_that(ours, "%s", dlerror());
	loader_open(&loader, &host);
	real_nccl_find(&copies, &loader);
	for (size_t i = 0; i < copies.count; i++) {
		const struct nccl_copy *copy = &copies.list[i];
		struct file_bytes file;
		int taken;

		if (copy->error || !copy->version.code)
			continue;
		file = file_bytes_read(copy->path);
		taken = compare_tables(&file, copy, ours);
		check(compare_plugins(&file, ours) > 0);
		printf("%s: NCCL %d asks as it should, and takes v%d\n", copy->path,
		       copy->version.code, taken);
		free(file.bytes);
		compared++;
	}
	dlclose(ours);
	if (!compared)
		check_skip("no libnccl.so.2 is found, and LIBNCCL_FILES names none");
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "each finds the file it should", test_search, .unopened = true },
		{ "each works through every table it knows", test_every_table_it_knows,
		  .unopened = true },
		{ "nothing else that they look for is there", test_other_plugins,
		  .unopened = true },
		{ "used again without init", test_used_again_without_init, .unopened = true },
		{ "held by other loaders", test_held_by_other_loaders, .unopened = true },
		{ "a real libnccl asks as the table has it", test_real_libnccl, .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
