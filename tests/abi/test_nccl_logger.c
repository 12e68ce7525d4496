/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built plugin with the logger of a real libnccl: the lines in NCCL's log. NCCL's logger is a local symbol, which
 * the driver's ELF reader finds.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elf_file.h>
#include <support/harness.h>

#define LOGGER "_Z12ncclDebugLog17ncclDebugLogLevelmPKciS1_z"

/* The libnccl that the driver finds, loaded; its logger. */
static driver_logger real_logger(void)
{
	char err[1024], *base;
	static struct driver_net *nccl; /* stays open: its code prints */
	const Elf64_Sym *symbol;
	struct elf_file elf;
	driver_logger logger;
	Dl_info info;
	void *lib;

	nccl = driver_open("nccl:Socket", DRIVER_ABI_NEWEST, err, sizeof(err));
	if (!nccl)
		check_skip("%s", err);
	lib = dlopen(driver_path(nccl), RTLD_LAZY | RTLD_NOLOAD);
	check_that(lib && dladdr(dlsym(lib, "ncclGetVersion"), &info), "%s", dlerror());
	check_that(!elf_file_open(&elf, driver_path(nccl), err, sizeof(err)), "%s", err);
	symbol = elf_file_symbol(&elf, LOGGER, STT_FUNC);
	if (!symbol)
		check_skip("%s has no symbol %s", driver_path(nccl), LOGGER);
	base = (char *)info.dli_fbase + symbol->st_value;
	memcpy(&logger, &base, sizeof(logger));
	elf_file_close(&elf);
	return logger;
}

static void has_line(const char *log, const char *start, const char *level, const char *text)
{
	const char *found = strstr(log, start);
	const char *end = found ? strchr(found, '\n') : NULL;
	const char *where = found ? strstr(found, text) : NULL;

	check_that(found, "no line with '%s' in:\n%s", start, log);
	check_that(where && (!end || where < end), "no '%s' in the line '%s' of:\n%s", text, start,
		   log);
	while (found > log && found[-1] != '\n')
		found--;
	where = strstr(found, level);
	check_that(where && where < end, "the line '%s' is no %s:\n%s", start, level, log);
}

static void nccls_log_says_what_users_look_for(struct test_net *net)
{
	char path[] = "/tmp/anynet-log-XXXXXX", log[65536], err[512];
	size_t bytes;
	void *ctx;
	FILE *file;
	int fd = mkstemp(path);

	check(fd >= 0);
	setenv("NCCL_NET", "Socket", 1);
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_FILE", path, 1);
	unsetenv("NCCL_DEBUG_SUBSYS");
	net->driver = driver_open(net->spec, net->abi, err, sizeof(err));
	check_that(net->driver, "%s", err);
	check_ok(driver_init(net->driver, &ctx, 1, -1, real_logger(), NULL));
	check(driver_properties(net->driver, 1000, &net->props) != 0); /* a WARN */
	check_ok(driver_finalize(net->driver, ctx));
	driver_close(net->driver);

	file = fdopen(fd, "r");
	check(file);
	bytes = fread(log, 1, sizeof(log) - 1, file);
	log[bytes] = '\0';
	fclose(file);
	unlink(path);
	has_line(log, "anynet: version", "NCCL INFO", "libnccl-net.so presented as Socket");
	has_line(log, "anynet: version", "NCCL INFO", " nccl 2"); /* found by its logger */
	has_line(log, "anynet: dev 0", "NCCL INFO", "lo");
	has_line(log, "anynet: get properties", "NCCL WARN", "no device 1000");
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ .name = "NCCL's log says what users look for",
		  .run = nccls_log_says_what_users_look_for,
		  .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
