/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real NCCL searches for the plugin, selects one of its tables and starts it, without a GPU: creating a communicator
 * calls one function for its network, which is called here on a communicator of zeros. Its log is compared with what
 * releases.h says. The functions are not visible to dlsym: the test needs a libnccl that is not stripped, of a release
 * in which they are known. PROGRAM NET 0, with the net's directory in LD_LIBRARY_PATH.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <support/capture.h>
#include <support/harness.h>
#include <support/peer.h>

#include <nccl_net/util.h>

#include "real_nccl.h"
#include "tools/check/releases.h"
#include "tools/shared/net/elf_file.h"

#define CODE_OLDEST     22800
#define CODE_NEWEST     22899
#define COMM_BYTES      (64UL << 20) /* larger than the real one */
#define LOG_BYTES       (64 << 10)
#define API_MAGIC       0xcafebeefU
#define OLD_CONFIG_CODE 21400 /* a configuration that ends with `blocking` */
#define INVALID_USAGE   5

/* Offsets from the address of the library. */
struct functions {
	uint64_t read_environment, read_config, find_net;
};

struct old_config {
	size_t bytes;
	unsigned magic, version;
	int blocking;
};

struct attempt {
	const struct nccl_copy *copy;
	const struct functions *functions;
	const char *net_plugin, *net; /* NULL = not set */
	bool taken;                   /* not only according to the rules */
	char directory[64];           /* for its log */
};

static bool function_of(const struct elf_file *elf, const char *name, uint64_t *offset)
{
	const Elf64_Sym *symbol = elf_file_symbol(elf, name, STT_FUNC);

	if (symbol)
		*offset = symbol->st_value;
	return symbol != NULL;
}

static bool functions_of(const struct nccl_copy *copy, struct functions *functions)
{
	struct elf_file elf;
	char err[300];
	bool all;

	if (copy->error || copy->version.code < CODE_OLDEST || copy->version.code > CODE_NEWEST ||
	    elf_file_open(&elf, copy->path, err, sizeof(err)))
		return false;
	all = function_of(&elf, "_Z11ncclInitEnvv", &functions->read_environment) &&
	      function_of(&elf, "_ZL15parseCommConfigP8ncclCommP17ncclConfig_v22800",
			  &functions->read_config) &&
	      function_of(&elf, "_Z11ncclNetInitP8ncclComm", &functions->find_net);
	elf_file_close(&elf);
	return all;
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Its result. */
static int find_net(const struct attempt *attempt)
{
	/* NCCL uses little of it. */
	void *comm = mmap(NULL, COMM_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct old_config config = { 0, API_MAGIC, OLD_CONFIG_CODE, INT_MIN };
	void *lib = dlopen(attempt->copy->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	void (*read_environment)(void);
	int (*read_config)(void *, void *), (*find)(void *);
	struct link_map *map;

	check_that(lib, "%s", dlerror());
	check(comm != MAP_FAILED && !dlinfo(lib, RTLD_DI_LINKMAP, &map));
	read_environment = (void (*)(void))(map->l_addr + attempt->functions->read_environment);
	read_config = (int (*)(void *, void *))(map->l_addr + attempt->functions->read_config);
	find = (int (*)(void *))(map->l_addr + attempt->functions->find_net);
	config.bytes = offsetof(struct old_config, blocking) + sizeof(config.blocking);
	read_environment();
	check_int(read_config(comm, &config), 0);
	return find(comm);
}

static void read_log(const char *path, char *text)
{
	FILE *file = fopen(path, "re");
	size_t bytes;

	check_that(file, "there is no %s", path);
	bytes = fread(text, 1, LOG_BYTES - 1, file);
	text[bytes] = 0;
	check(bytes < LOG_BYTES - 1);
	fclose(file);
	unlink(path);
}

static bool logged(const char *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line with this end. */
static bool logged(const char *log, const char *fmt, ...)
{
	char line[PATH_MAX + 200];
	va_list args;
	int used;

	va_start(args, fmt);
	used = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	snprintf(line + used, sizeof(line) - (size_t)used, "\n");
	return strstr(log, line) != NULL;
}

/* Is the `index`th name that of an entry which was found by its other name? Then the log has no line for it. */
static bool found_otherwise(const struct plugin_outcome *outcome, size_t index)
{
	char other[PATH_MAX];

	snprintf(other, sizeof(other), "libnccl-net-%s.so", outcome->tried.items[index]);
	return outcome->file && index + 2 == outcome->tried.count &&
	       !strcmp(outcome->tried.items[index + 1], other);
}

/* All names that were not found, and no others. */
static void check_missed(const char *log, const struct plugin_outcome *outcome)
{
	static const char start[] = "NET/Plugin: Could not find:";
	size_t names = outcome->tried.count - (outcome->file ? 1 : 0), missed = 0, said = 0;

	for (size_t i = 0; i < names; i++) {
		const char *name = outcome->tried.items[i];
		const char *line = strstr(log, start);

		if (found_otherwise(outcome, i))
			continue;
		missed++;
		while (line && !memmem(line, strcspn(line, "\n"), name, strlen(name)))
			line = strstr(line + 1, start);
		check_that(line, "it has not looked for %s: %s", name, log);
	}
	for (const char *line = log; (line = strstr(line, start)); line++) {
		line += sizeof(start) - 1;
		for (size_t i = 0; line[i] && line[i] != '\n'; i++)
			said += line[i] == ' ';
	}
	check_that(said == missed, "%zu names were not found, not %zu: %s", said, missed, log);
}

static void attempt_once(int fd, void *arg)
{
	const struct attempt *attempt = arg;
	const char *name = attempt->net ? attempt->net : "anynet";
	struct host host = { .root = "", .home = "" };
	struct plugin_outcome outcome;
	struct loader loader;
	static char log[LOG_BYTES];
	char path[128];
	int result;

	(void)fd;
	snprintf(path, sizeof(path), "%s/log", attempt->directory);
	set("NCCL_NET_PLUGIN", attempt->net_plugin);
	set("NCCL_NET", attempt->net);
	set("NCCL_DEBUG", "INFO");
	set("NCCL_DEBUG_SUBSYS", NULL);
	set("NCCL_DEBUG_FILE", path);
	set("NCCL_CONF_FILE", "/dev/null");
	set("NCCL_IB_DISABLE", "1");
	loader_open(&loader, &host);
	plugin_resolve(release_range_of(attempt->copy->version.code), &loader, attempt->net_plugin,
		       attempt->net, &outcome);
	check_that(!attempt->taken || outcome.state == PLUGIN_LOADED, "NCCL_NET=%s: state %d",
		   attempt->net ? attempt->net : "(unset)", outcome.state);
	result = find_net(attempt);
	read_log(path, log);

	check_missed(log, &outcome);
	check_that((outcome.state == PLUGIN_LOADED || outcome.state == PLUGIN_FILTERED) ==
			   (strstr(log, "NET/Plugin: Loaded net plugin ") != NULL),
		   "state %d, but %s", outcome.state, log);
	check_that((outcome.state == PLUGIN_LOADED) == (strstr(log, "anynet: version ") != NULL),
		   "state %d, but %s", outcome.state, log);
	if (outcome.state == PLUGIN_LOADED) {
		check_that(logged(log, "NET/Plugin: Loaded net plugin %s (v%d)", name, outcome.api),
			   "not %s, v%d: %s", name, outcome.api, log);
		check_that(logged(log, "loaded external network plugin %s", outcome.file),
			   "not %s: %s", outcome.file, log);
		check_that(logged(log, "Assigned NET plugin %s to comm", name), "%s", log);
	}
	check_int(result, outcome.state == PLUGIN_FILTERED ? INVALID_USAGE : 0);
}

/* With each libnccl on this host in which it is possible. */
static void by_each(const char *net_plugin, const char *net, bool taken)
{
	struct host host = { .root = "", .home = "" };
	struct nccl_copies copies;
	struct loader loader;
	unsigned tried = 0;

	loader_open(&loader, &host);
	real_nccl_find(&copies, &loader);
	for (size_t i = 0; i < copies.count; i++) {
		struct functions functions;
		struct attempt attempt = { &copies.list[i], &functions,
					   net_plugin,      net,
					   taken,           "/tmp/anynet-search.XXXXXX" };
		struct peer peer;

		if (!functions_of(attempt.copy, &functions))
			continue;
		check(mkdtemp(attempt.directory));
		peer_start(&peer, attempt_once, &attempt);
		peer_wait_ok(&peer);
		rmdir(attempt.directory);
		tried++;
	}
	if (!tried)
		check_skip("no libnccl.so.2 of NCCL 2.28 with its symbols");
}

static void test_names(struct test_net *net)
{
	const char *const values[] = { NULL,
				       "",
				       "anynet",
				       "libnccl-net-anynet.so",
				       net->spec,
				       "nowhere",
				       "nowhere,,anynet,nowhere",
				       "None",
				       "libnowhere.so,anynet",
				       "/nowhere/libnccl-net.so" };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		by_each(values[i], NULL, !values[i]);
}

static void test_filter(struct test_net *net)
{
	static const char *const values[] = { "", "IB", "ib", "Socket", "anynet" };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		by_each(net->spec, values[i], true);
	by_each(NULL, "IB", true);
	by_each(NULL, "other", false);
}

/* Hides a table in the copy of the library. Tables are found by name only. */
static void hide(unsigned char *bytes, size_t size, int api)
{
	char symbol[32];
	unsigned char *at = bytes;
	unsigned found = 0;
	int length = snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", api);

	while ((at = memmem(at, size - (size_t)(at - bytes), symbol, (size_t)length + 1))) {
		*at = 'x';
		found++;
	}
	check(found > 0);
}

static void write_copy(const char *path, const char *from, int newest)
{
	struct file_bytes copy = file_bytes_read(from);
	FILE *file;

	for (int api = newest + 1; api <= 12; api++)
		hide(copy.bytes, copy.size, api);
	file = fopen(path, "we");
	check(file && fwrite(copy.bytes, copy.size, 1, file) == 1 && !fclose(file));
	free(copy.bytes);
}

/* NCCL's shims: how it uses a plugin without newer tables. It does not use v5. */
static void test_tables(struct test_net *net)
{
	char directory[] = "/tmp/anynet-tables.XXXXXX", path[64];

	check(mkdtemp(directory));
	for (int newest = 12; newest >= 5; newest--) {
		snprintf(path, sizeof(path), "%s/libv%d.so", directory, newest);
		write_copy(path, net->spec, newest);
		by_each(path, newest == 5 ? NULL : "IB", newest > 5);
		unlink(path);
	}
	rmdir(directory);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "the names it tries", test_names, .unopened = true },
		{ "the networks it is told to take", test_filter, .unopened = true },
		{ "every table it knows, by its shims", test_tables, .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
